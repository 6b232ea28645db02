//! The event loop: it executes the next action of each process in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use terrace_plan::policy::Ack;

use crate::choose::{Choose, Piece};
use crate::heap::Moment;
use crate::held::{Held, ReadContext};
use crate::job::{Error, Job};
use crate::machine::Machine;
use crate::mover::Movers;
use crate::outcome::{Outcome, PhaseOutcome};
use crate::room::{Room, capacity};
use crate::thread::{Cores, Next, Process, Thread, compute, store};
use crate::work::{Phase, Work};

/// Simulates a job; `chooser` places the replicas.
///
/// ```
/// use terrace_plan::policy::{Ack, Policy};
/// use terrace_simulate::{Cluster, Even, Job, Kind, Knows, Phase, Place, Planner, Tier, simulate};
///
/// let disk = Tier {
///     name: "disk".into(),
///     place: Place::Shared,
///     targets: 1,
///     write: 100e6,
///     read: 100e6,
///     latency: 0.0,
///     lanes: 1,
///     capacity: None,
///     persistent: true,
///     watts: 5.0,
///     price: 10.0,
///     link: None,
/// };
/// let cluster = Cluster { nodes: 1, cores: 2, core_watts: 10.0, processes: 1, tiers: vec![disk], links: Vec::new() };
/// // One process writes five objects of a block of 10 MB each.
/// let work = Even { steps: 1, objects: 5, blocks: 1, kinds: vec![10_000_000] };
/// let phases = [Phase::Write { ack: Ack::Placed, computing: 0.0 }];
/// let job = Job { cluster: &cluster, work: &work, phases: &phases, under_way: 1, knows: Knows::Begun };
/// // No encoding is known for these blocks, so they are stored as they are.
/// let kinds = vec![Kind { bytes: 10_000_000, costs: Vec::new() }];
/// let outcome = simulate(&job, &mut Planner::new(Policy { replicas: 1, ..Policy::default() }, 1.0, kinds, None))?;
/// assert!((outcome.seconds() - 0.5).abs() < 1e-6);
/// # Ok::<(), terrace_simulate::Error>(())
/// ```
///
/// # Errors
/// Any [`Error`].
pub fn simulate<W: Work>(job: &Job<'_, W>, chooser: &mut impl Choose) -> Result<Outcome, Error> {
    job.cluster.check()?;
    let machine = Machine::new(job.cluster);
    let mut run = Run {
        job,
        room: Room::new(job.cluster, &machine, job.knows)?,
        machine,
        cores: (0..job.cluster.nodes).map(|_| Cores::default()).collect(),
        processes: Vec::new(),
        threads: Vec::new(),
        movers: Movers::default(),
        moving: Vec::new(),
        held: job.phases.iter().any(|phase| matches!(phase, Phase::Read(_))).then(Held::default),
        begun: Vec::new(),
        events: BinaryHeap::new(),
        pieces: Vec::new(),
        outcome: Outcome::default(),
        replicas: 0.0,
    };
    let mut now = 0.0;
    for phase in job.phases {
        now = run.phase(*phase, now, chooser)?;
    }
    Ok(run.end())
}

struct Run<'a, W> {
    job: &'a Job<'a, W>,
    machine: Machine<'a>,
    cores: Vec<Cores>,
    room: Room,
    processes: Vec<Process>,
    threads: Vec<Thread>,
    movers: Movers,
    /// The remaining actions of each mover, in reverse order.
    moving: Vec<Vec<Next>>,
    held: Option<Held>,
    /// The moment at which each thread and mover started its last write or read.
    begun: Vec<f64>,
    /// The event queue: the moment, a sequence number for equal moments, and the actor. Threads come before movers.
    events: BinaryHeap<Reverse<(Moment, u64, usize)>>,
    pieces: Vec<Piece>,
    outcome: Outcome,
    replicas: f64,
}

impl<W: Work> Run<'_, W> {
    /// Runs a phase, and returns the moment at which everything is done.
    fn phase(&mut self, phase: Phase, begin: f64, chooser: &mut impl Choose) -> Result<f64, Error> {
        let &Job { cluster, under_way, .. } = self.job;
        self.processes = (0..cluster.processes).map(|_| Process { begun: begin, ..Process::default() }).collect();
        self.threads.clear();
        for process in 0..cluster.processes {
            self.threads.extend((0..under_way.max(1)).map(|_| Thread { process, ..Thread::default() }));
        }
        if self.passes(phase) > 0 && self.job.work.steps() > 0 {
            (0..cluster.processes).for_each(|process| self.begin(process, begin));
        }
        let (mut last, mut through) = (begin, begin);
        while let Some(Reverse((Moment(now), _, who))) = self.events.pop() {
            last = now;
            if who >= self.threads.len() {
                self.moved(who - self.threads.len(), now);
            } else if self.go_on(who, now, phase, chooser)? {
                through = now;
            }
        }
        let spent = self.processes.iter().map(|process| process.spent).fold(0.0, f64::max);
        let (elapsed, settled) = (through - begin, last - begin);
        self.outcome.phases.push(PhaseOutcome { seconds: spent, elapsed, settled });
        Ok(last)
    }

    fn passes(&self, phase: Phase) -> usize {
        if let Phase::Read(times) = phase { times } else { 1 }
    }

    /// Starts a step of a process.
    fn begin(&mut self, process: usize, now: f64) {
        let threads = self.job.under_way.max(1);
        let of = &mut self.processes[process];
        (of.begun, of.object, of.active) = (now, 0, threads);
        (0..threads).for_each(|thread| self.at(now, process * threads + thread));
    }

    fn at(&mut self, moment: f64, who: usize) {
        self.outcome.events += 1;
        self.events.push(Reverse((Moment(moment), self.outcome.events, who)));
    }

    /// Continues a thread; returns whether its process has thereby finished.
    fn go_on(&mut self, who: usize, now: f64, phase: Phase, chooser: &mut impl Choose) -> Result<bool, Error> {
        let process = self.threads[who].process;
        let node = self.job.cluster.node(process);
        loop {
            while let Some(next) = self.threads[who].todo.pop() {
                if let Some(end) = self.act(next, node, now, who) {
                    self.at(end, who);
                    return Ok(false);
                }
            }
            let Process { step, object: next, .. } = self.processes[process];
            let (object, block) = match self.threads[who].at {
                Some(at) => at,
                None if next < self.job.work.objects(process, step) => {
                    self.processes[process].object += 1;
                    (next, 0)
                }
                None => return Ok(self.idle(process, now, phase)),
            };
            let Some(kind) = self.job.work.block(process, step, object, block) else {
                self.threads[who].at = None;
                continue;
            };
            let cores = &mut self.cores[node];
            if matches!(phase, Phase::Write { .. }) && cores.busy >= self.job.cluster.cores {
                self.threads[who].at = Some((object, block));
                cores.waiting.push_back(who);
                return Ok(false);
            }
            self.threads[who].at = Some((object, block + 1));
            let at = [process, step, object];
            match phase {
                Phase::Write { ack, .. } => self.write(who, at, (block as u32, kind), (now, ack), chooser)?,
                Phase::Read(_) => self.read(who, at, block as u32, now),
            }
        }
    }

    /// Executes an action; returns the moment of its completion if it takes time.
    fn act(&mut self, next: Next, node: usize, now: f64, who: usize) -> Option<f64> {
        match next {
            Next::Serve(serve) => return Some(self.machine.serve(now, serve)),
            Next::Free => {
                self.cores[node].busy -= 1;
                self.next_plans(node, now);
            }
            Next::Read(piece) => {
                self.begins(who, now);
                *self.asked(who, &piece) += 1;
            }
            Next::Write(piece) => {
                self.begins(who, now);
                self.room.record_write_start(node, &piece, &self.machine);
            }
            Next::Written(piece) => self.room.record_write(node, &piece, now - self.begun[who], &self.machine),
            Next::Got(piece) => {
                *self.asked(who, &piece) -= 1;
                self.room.record_read(node, &piece, now - self.begun[who], &self.machine);
            }
            Next::Owe(pieces) => {
                for piece in pieces {
                    let target = self.machine.target(node, piece.target);
                    if let Some(idle) = self.movers.add_pending(node, target, piece) {
                        self.at(now, self.threads.len() + idle);
                    }
                }
            }
        }
        None
    }

    /// Lets the thread plan that has waited longest for a core.
    fn next_plans(&mut self, node: usize, now: f64) {
        if let Some(next) = self.cores[node].waiting.pop_front() {
            self.at(now, next);
        }
    }

    fn begins(&mut self, who: usize, now: f64) {
        self.begun.resize(self.begun.len().max(who + 1), 0.0);
        self.begun[who] = now;
    }

    /// Returns the number of pieces that the thread's process is reading from the piece's target.
    fn asked(&mut self, who: usize, piece: &Piece) -> &mut u32 {
        let asked = &mut self.processes[self.threads[who].process].asked;
        let target = usize::from(piece.target);
        asked.resize(asked.len().max(target + 1), 0);
        &mut asked[target]
    }

    /// Continues a mover.
    fn moved(&mut self, number: usize, now: f64) {
        if self.moving.len() <= number {
            self.moving.resize_with(number + 1, Vec::new);
        }
        let node = self.movers.workers[number].0;
        loop {
            while let Some(next) = self.moving[number].pop() {
                if let Some(end) = self.act(next, node, now, self.threads.len() + number) {
                    return self.at(end, self.threads.len() + number);
                }
            }
            let owed = &mut self.movers.workers[number].1;
            let Some(piece) = owed.queue.pop_front() else {
                owed.busy = false;
                return;
            };
            store(&self.machine, node, &piece, &mut self.moving[number]);
            self.moving[number].reverse();
        }
    }

    /// Marks a thread as finished with the step; returns whether its process has thereby finished.
    fn idle(&mut self, process: usize, now: f64, phase: Phase) -> bool {
        let (steps, passes) = (self.job.work.steps(), self.passes(phase));
        let of = &mut self.processes[process];
        of.active -= 1;
        if of.active > 0 {
            return false;
        }
        of.spent += now - of.begun;
        of.step += 1;
        if of.step == steps {
            (of.step, of.pass) = (0, of.pass + 1);
        }
        if of.pass == passes {
            return true;
        }
        let computing = if let Phase::Write { computing, .. } = phase { computing } else { 0.0 };
        self.begin(process, now + computing);
        false
    }

    /// Plans a block, and lets the thread write the pieces that the write waits for.
    fn write(
        &mut self,
        who: usize,
        at: [usize; 3],
        (block, kind): (u32, usize),
        (now, ack): (f64, Ack),
        chooser: &mut impl Choose,
    ) -> Result<(), Error> {
        let [process, step, _] = at;
        let node = self.job.cluster.node(process);
        let bytes = self.job.work.bytes(kind);
        self.pieces.clear();
        let snapshot = self.room.snapshot(node, bytes, now, &self.machine);
        if chooser.choose(kind, snapshot, &mut self.pieces).is_err() || self.pieces.is_empty() {
            return Err(Error::NoRoom { process, step, stored: self.room.stored().iter().sum() });
        }
        self.pieces.iter_mut().for_each(|piece| piece.block = block);
        self.room.take(node, &self.pieces, &self.machine);
        if let Some(held) = &mut self.held {
            held.keep(at, &self.pieces);
        }
        self.outcome.raw += bytes as f64;
        self.replicas += bytes as f64 * f64::from(self.pieces.iter().map(|piece| piece.replica).max().unwrap_or(0) + 1);
        let first = self.pieces.iter().take_while(|piece| piece.replica == 0).count();
        let waited = if ack == Ack::Placed { first } else { self.pieces.len() };
        let todo = &mut self.threads[who].todo;
        self.pieces[..waited].iter().for_each(|piece| store(&self.machine, node, piece, todo));
        if waited < self.pieces.len() {
            todo.push(Next::Owe(self.pieces[waited..].into()));
        }
        let encodes = self.pieces[0].encode > 0.0;
        if encodes {
            todo.insert(1, Next::Free);
        }
        todo.reverse();
        if encodes {
            self.cores[node].busy += 1;
        } else {
            self.next_plans(node, now);
        }
        Ok(())
    }

    /// Lets the thread read a block from the replica with the earliest estimated arrival.
    fn read(&mut self, who: usize, at: [usize; 3], block: u32, now: f64) {
        let Some(held) = &self.held else { return };
        let node = self.job.cluster.node(at[0]);
        let asked = &self.processes[at[0]].asked;
        let near = ReadContext { machine: &self.machine, room: &self.room, node, asked, now };
        let todo = &mut self.threads[who].todo;
        for piece in held.nearest(at, block, near) {
            todo.push(Next::Read(piece));
            todo.extend(self.machine.read(node, &piece).into_iter().flatten().map(Next::Serve));
            todo.push(Next::Got(piece));
            todo.extend(compute(&self.machine, node, piece.decode));
        }
        todo.reverse();
    }

    fn end(mut self) -> Outcome {
        let tiers = &self.job.cluster.tiers;
        self.outcome.tiers = self.room.stored().to_vec();
        self.outcome.capacities = tiers.iter().map(|tier| capacity(self.job.cluster, tier)).collect();
        let price = |(tier, bytes): (&crate::Tier, &u64)| tier.price * *bytes as f64 / 1e12;
        self.outcome.cost = tiers.iter().zip(&self.outcome.tiers).map(price).sum();
        self.outcome.replicas = self.replicas / self.outcome.raw.max(1.0);
        self.outcome.joules = self.machine.joules();
        self.outcome
    }
}
