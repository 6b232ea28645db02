//! Random commands to a real memcached and to this server: the replies are the same.

use std::os::unix::net::UnixStream;
use std::process::{Child, Command};

use tempfile::TempDir;
use terrace_testkit::{Missing, Random, skip, wait_until};

use crate::lines::{Lines, serve};

/// A memcached that ends with the test.
struct Memcached {
    child: Child,
    dir: TempDir,
}

impl Memcached {
    /// Starts one; none if the machine lacks it.
    fn start() -> Option<Memcached> {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        let child = Command::new("memcached").args(["-u", "root", "-U", "0", "-s"]).arg(&socket).spawn().ok()?;
        wait_until("memcached listens", || UnixStream::connect(&socket).is_ok());
        Some(Memcached { child, dir })
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A connection to one of the two servers.
struct Side(Lines);

impl Side {
    /// Sends a command, and returns the reply without what may differ: numbers for `cas`, and the spaces with which memcached
    /// fills up a number that has become shorter.
    fn reply(&mut self, wanted: &Wanted) -> Vec<String> {
        let Wanted { line, block, key } = wanted;
        let mut line = line.clone();
        if line.contains("UNIQUE") {
            let found = self.0.get(&format!("gets {key}"));
            line = line.replace("UNIQUE", found.first().map_or("0", |(words, _)| &words[3]));
        }
        let block = block.as_ref().map(|block| format!("{block}\r\n")).unwrap_or_default();
        self.0.send(format!("{line}\r\n{block}").as_bytes());
        if line.ends_with("noreply") {
            return Vec::new();
        }
        if !line.starts_with('g') {
            return vec![self.0.line()];
        }
        let shown = |(words, value): &(Vec<String>, String)| format!("{} {} {}", words[0], words[1], value.trim_end());
        self.0.items().iter().map(shown).collect()
    }
}

/// A command that both servers get.
#[derive(Debug)]
struct Wanted {
    line: String,
    block: Option<String>,
    key: String,
}

impl Wanted {
    fn draw(random: &mut Random) -> Wanted {
        let case = random.below(12);
        let store = *random.pick(&["set", "add", "replace", "append", "prepend"]);
        // Behind the spaces with which memcached fills up a number, other bytes would make another value.
        let keys: &[&str] = match (case, store) {
            (5 | 6, _) => &["a", "b"],
            (0..=3, "append" | "prepend") => &["c"],
            _ => &["a", "b", "c"],
        };
        let key = (*random.pick(keys)).to_owned();
        let expiry = *random.pick(&["0", "0", "0", "1000", "2000000000", "-1"]);
        let flags = *random.pick(&["0", "7", "4294967295"]);
        let number = *random.pick(&["0", "1", "9", "10", "100", "18446744073709551615", "x", "-1", ""]);
        let block = (*random.pick(&["", "1", "99", "text", "18446744073709551615", "some\nlines"])).to_owned();
        let noreply = *random.pick(&["", "", "", " noreply"]);
        let length = block.len();
        let (line, block) = match case {
            0..=3 => (format!("{store} {key} {flags} {expiry} {length}{noreply}"), Some(block)),
            4 => (
                format!("cas {key} {flags} {expiry} {length} {}{noreply}", random.pick(&["UNIQUE", "UNIQUE", "0"])),
                Some(block),
            ),
            5 => (format!("incr {key} {number}{noreply}"), None),
            6 => (format!("decr {key} {number}{noreply}"), None),
            7 => (format!("touch {key} {expiry}{noreply}"), None),
            8 => (format!("{}{noreply}", random.pick(&[&*format!("delete {key}"), "delete c 0", "delete c 5"])), None),
            9 => (format!("gets a {key}"), None),
            10 => (format!("gat {expiry} {key} b"), None),
            _ => (
                random
                    .pick(&["get a  b c", "delete", "touch a", "incr a", "GET a", "verbosity", "nonsense", ""])
                    .to_string(),
                None,
            ),
        };
        Wanted { line, block, key }
    }
}

#[test]
fn random_commands_get_the_replies_of_memcached() {
    let Some(memcached) = Memcached::start() else {
        let missing = Missing::new("memcached", "there is no memcached; `make servers` installs it");
        return skip("a comparison with memcached", &missing);
    };
    let served = serve();
    let mut theirs = Side(Lines::connect(&memcached.dir.path().join("socket")));
    let mut ours = Side(Lines::connect(&served.socket));
    let cases: u64 = std::env::var("CASES").map_or(1500, |text| text.parse().unwrap());
    let mut random = Random::new(5);
    let mut earlier: Vec<Wanted> = Vec::new();
    for case in 0..cases {
        let wanted = Wanted::draw(&mut random);
        let (expected, found) = (theirs.reply(&wanted), ours.reply(&wanted));
        let last = &earlier[earlier.len().saturating_sub(8)..];
        assert_eq!(found, expected, "case {case}: {wanted:?}, after {last:#?}");
        earlier.push(wanted);
    }
}
