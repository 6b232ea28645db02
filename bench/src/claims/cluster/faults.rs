//! N4: nodes and etcd's leader are killed.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use terrace::report::{NodeState, TierState};
use terrace_testkit::EtcdCluster;

use super::bare::BareLog;
use super::calls::{CallLoop, TimedCall, longest};
use super::latency::put;
use super::nodes::{NODE_NAMES, SharedStore, StoreShape};
use crate::place::random_bytes;
use crate::row::{Better, Row};
use crate::size::Size;
use crate::timing::Times;

const NODE_COUNT: usize = 3;
const OBJECT_BYTES: usize = 4 << 10;
const RECORD_BYTES: usize = 300;
/// The lease of a node's fence.
const LEASE_SECONDS: f64 = 10.0;
const MAX_AWAY_SECONDS: f64 = LEASE_SECONDS + 1.0;
const MAX_PUT_SECONDS: f64 = 1.0;
const MAX_LEADERLESS_SECONDS: f64 = 5.0;
/// All is quiet for this long before each kill.
const QUIET_TIME: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const MAX_WAIT: Duration = Duration::from_secs(60);
const BARE_LOG_NUMBER: u64 = 4;

/// The seconds that were measured, one for each kill.
#[derive(Default)]
struct FaultTimes {
    status_away: Vec<f64>,
    log_away: Vec<f64>,
    longest_put: Vec<f64>,
    longest_quiet_put: Vec<f64>,
    restart_late: Vec<f64>,
    restart_at_once: Vec<f64>,
    leaderless: Vec<f64>,
    leaderless_bare: Vec<f64>,
}

pub fn run(etcd: &mut EtcdCluster) -> Result<Vec<Row>> {
    let mut shared = SharedStore::start(etcd, StoreShape::new(NODE_COUNT, 2))?;
    let mut measured = FaultTimes::default();
    let kills = Size::get().of(1, 3, 9);
    for round in 0..kills {
        measured.kill_node(&mut shared, round % NODE_COUNT, round)?;
    }
    for round in 0..kills {
        measured.kill_leader(&shared, etcd, round)?;
    }
    Ok(measured.rows())
}

impl FaultTimes {
    /// Kills a node while others write, and starts it again once it is away. Then kills it, and starts it again at once.
    fn kill_node(&mut self, shared: &mut SharedStore, victim: usize, round: usize) -> Result<()> {
        let others: Vec<usize> = (0..NODE_COUNT).filter(|at| *at != victim).collect();
        let observer = shared.open(others[0])?;
        let mut writers = others.iter().map(|at| writer(shared, *at, round)).collect::<Result<Vec<_>>>()?;
        let quiet = Instant::now();
        thread::sleep(QUIET_TIME);
        let killed = Instant::now();
        shared.kill_node(victim)?;
        let (mut in_status, mut in_log) = (None, None);
        while in_status.is_none() || in_log.is_none() {
            check(&mut writers, killed)?;
            let is_away =
                || Ok::<_, anyhow::Error>(observer.status()?.tiers.iter().any(|t| t.state == TierState::Away));
            if in_status.is_none() && is_away()? {
                in_status = Some(killed.elapsed().as_secs_f64());
            }
            let is_victim = |node: &NodeState| node.is_there && node.name == NODE_NAMES[victim];
            if in_log.is_none() && !observer.nodes()?.iter().any(is_victim) {
                in_log = Some(killed.elapsed().as_secs_f64());
            }
            thread::sleep(POLL_INTERVAL);
        }
        let known = Instant::now();
        self.status_away.extend(in_status);
        self.log_away.extend(in_log);
        let calls = writers.into_iter().map(CallLoop::stop).collect::<Result<Vec<_>>>()?.concat();
        self.longest_put.push(longest(&calls, killed, known));
        self.longest_quiet_put.push(longest(&calls, quiet, killed));
        self.restart_late.push(restart(shared, victim, &format!("late/{round}"))?);
        shared.kill_node(victim)?;
        self.restart_at_once.push(restart(shared, victim, &format!("at-once/{round}"))?);
        Ok(())
    }

    /// Kills etcd's leader while all nodes write, and starts it again.
    fn kill_leader(&mut self, shared: &SharedStore, etcd: &mut EtcdCluster, round: usize) -> Result<()> {
        let mut writers = (0..NODE_COUNT).map(|at| writer(shared, at, round + 1000)).collect::<Result<Vec<_>>>()?;
        let (mut bare, record) = (BareLog::make(etcd, BARE_LOG_NUMBER)?, Arc::from(random_bytes(RECORD_BYTES, 1)));
        writers.push(CallLoop::start(move |_| bare.append(&record)));
        thread::sleep(QUIET_TIME);
        let leader = etcd.leader().context("etcd has no leader")?;
        etcd.kill(leader);
        let killed = Instant::now();
        let first = loop {
            check(&mut writers, killed)?;
            let first: Option<Vec<Instant>> = writers.iter().map(|writer| writer.first_after(killed)).collect();
            match first {
                Some(first) => break first,
                None => thread::sleep(POLL_INTERVAL),
            }
        };
        let seconds = |end: &Instant| end.duration_since(killed).as_secs_f64();
        self.leaderless.push(first[..NODE_COUNT].iter().map(seconds).fold(0.0, f64::max));
        self.leaderless_bare.extend(first[NODE_COUNT..].iter().map(seconds));
        etcd.start_again();
        let calls: Vec<Vec<TimedCall>> = writers.into_iter().map(CallLoop::stop).collect::<Result<_>>()?;
        ensure!(calls.iter().all(|calls| !calls.is_empty()), "a writer has written nothing");
        thread::sleep(QUIET_TIME);
        Ok(())
    }

    fn rows(self) -> Vec<Row> {
        let kills = self.log_away.len();
        let row = |what: &str, seconds: Vec<f64>, goal: Option<f64>, beside: Option<f64>, details: &str| {
            let times = Times::new(seconds);
            let (worst, middle) = (times.quantile(1.0), times.median());
            let mut row = Row::new("cluster N4", what, worst, "s")
                .details(format!("the worst of {kills}, the middle one is {middle:.2} s; {details}"));
            if let Some(goal) = goal {
                row = row.goal(goal, Better::Lower);
            }
            if let Some(beside) = beside {
                row = row.beside(beside, Better::Lower);
            }
            row
        };
        let worst = |seconds: &[f64]| seconds.iter().copied().fold(0.0, f64::max);
        let (quiet, bare) = (worst(&self.longest_quiet_put), worst(&self.leaderless_bare));
        vec![
            row(
                "kill -9 of a node, until the log says that it is away, beside its lease",
                self.log_away,
                Some(MAX_AWAY_SECONDS),
                Some(LEASE_SECONDS),
                "three nodes; each is killed in turn, also the one that keeps the log in order",
            ),
            row(
                "kill -9 of a node, until `terrace status` of another one shows its tier as away",
                self.status_away,
                Some(MAX_AWAY_SECONDS),
                None,
                "by a process that asks all the time",
            ),
            row(
                "kill -9 of a node: longest put of 4 KiB on the other nodes until they know it",
                self.longest_put,
                Some(MAX_PUT_SECONDS),
                Some(quiet),
                "placed; beside the longest one of two quiet seconds before",
            ),
            row(
                "kill -9 of etcd's leader, until puts go on on all nodes, beside a bare transaction",
                self.leaderless,
                Some(MAX_LEADERLESS_SECONDS),
                Some(bare),
                "the end of the first put that began after the kill, on the slowest node",
            ),
            row(
                "start of a node that was away, until its first put has returned",
                self.restart_late,
                None,
                None,
                "from the start of its process",
            ),
            row(
                "start of a node at once after its kill, until its first put has returned",
                self.restart_at_once,
                None,
                None,
                "from the start of its process",
            ),
        ]
    }
}

/// Starts to put small objects on a node.
fn writer(shared: &SharedStore, at: usize, round: usize) -> Result<CallLoop> {
    let (store, bytes) = (shared.open(at)?, random_bytes(OBJECT_BYTES, 1));
    Ok(CallLoop::start(move |number| put(&store, &format!("writer/{round}/{at}/{number}"), &bytes)))
}

/// Fails if a writer has failed, or if all waited for too long.
fn check(writers: &mut [CallLoop], since: Instant) -> Result<()> {
    let failed = || format!("a call has failed {:.1} s after the kill", since.elapsed().as_secs_f64());
    writers.iter_mut().try_for_each(CallLoop::check).with_context(failed)?;
    ensure!(since.elapsed() < MAX_WAIT, "nothing has changed {MAX_WAIT:?} after the kill");
    Ok(())
}

/// Starts a node that was killed. Returns the seconds until a put has returned there.
fn restart(shared: &mut SharedStore, at: usize, key: &str) -> Result<f64> {
    let bytes = random_bytes(OBJECT_BYTES, 1);
    let begin = Instant::now();
    shared.start_again(at)?;
    loop {
        match shared.open(at).and_then(|store| put(&store, key, &bytes)) {
            Ok(()) => break,
            Err(error) => ensure!(begin.elapsed() < MAX_WAIT, "no put on a node that was started again: {error:#}"),
        }
    }
    let took = begin.elapsed().as_secs_f64();
    shared.wait_for_node(at)?;
    Ok(took)
}
