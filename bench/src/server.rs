//! A server in a process of its own, which is measured.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

const MAX_START_TIME: Duration = Duration::from_secs(30);
const START_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Linux counts the time of a process in these.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running server. It is killed when this is dropped.
pub struct ServerProcess(Child);

impl ServerProcess {
    /// Starts a server, and waits until it listens.
    pub fn start(mut command: Command, listens: impl Fn() -> bool) -> Result<ServerProcess> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().with_context(|| format!("starting {:?}", command.get_program()))?;
        let mut server = ServerProcess(child);
        let until = Instant::now() + MAX_START_TIME;
        while !listens() {
            if let Some(status) = server.0.try_wait()? {
                bail!("{:?} has ended: {status}", command.get_program());
            }
            ensure!(Instant::now() < until, "{:?} does not listen", command.get_program());
            thread::sleep(START_POLL_INTERVAL);
        }
        Ok(server)
    }

    /// Returns the processor time that it has used.
    pub fn cpu_seconds(&self) -> Result<f64> {
        let stat = fs::read_to_string(Path::new("/proc").join(self.0.id().to_string()).join("stat"))?;
        // The name of the program comes before, in parentheses.
        let fields = stat.rsplit(')').next().into_iter().flat_map(str::split_whitespace);
        let ticks: Vec<f64> = fields.skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
        ensure!(ticks.len() == 2, "the times of the server are not in {stat:?}");
        Ok(ticks.iter().sum::<f64>() / TICKS_PER_SECOND)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}
