//! A running `terrace node`.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use terrace_testkit::wait_until;

use crate::client::{self, Answer};
use crate::place::Place;

/// A daemon, which is killed if a test ends early.
pub struct Daemon {
    child: Child,
    pub address: SocketAddr,
}

impl Daemon {
    /// Starts it on a free port, with more arguments.
    pub fn start(place: &Place, more: &[&str]) -> Daemon {
        Daemon::start_with(place, more, &[])
    }

    /// The same, with an environment.
    pub fn start_with(place: &Place, more: &[&str], environment: &[(&str, &str)]) -> Daemon {
        let mut command = place.command([&["node", "--listen", "127.0.0.1:0"], more].concat());
        let mut child = command.envs(environment.iter().copied()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit_once("http://").and_then(|(_, at)| at.trim_end_matches('/').parse().ok());
        let Some(address) = address else { panic!("{line:?}") };
        Daemon { child, address }
    }

    /// Asks for a path.
    pub fn get(&self, path: &str) -> Answer {
        let answer = client::get(self.address, path).unwrap();
        assert_eq!(answer.code, 200, "{answer:?}");
        answer
    }

    /// The value of a metric, by its name and labels. None if it is not there.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let text = self.get("/metrics").body;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map(|value| value.parse().unwrap())
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end; the exit code, none if a signal ended it.
    pub fn wait(&mut self) -> Option<i32> {
        wait_until("the node ends", || self.child.try_wait().unwrap().is_some());
        self.child.wait().unwrap().code()
    }

    /// Ends it as a service manager does.
    pub fn stop(mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.wait(), Some(0));
    }

    /// Ends it at once.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It has ended already if the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
