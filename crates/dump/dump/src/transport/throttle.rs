//! A world with limited link rates, to measure as if on another machine.

use std::thread;
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;

use super::{Window, World};
use crate::Result;

/// The links of all nodes.
pub struct Links {
    /// Bytes per second, in each direction.
    rate: f64,
    /// When each node's link is free again: outgoing, incoming.
    free: Vec<Mutex<[Instant; 2]>>,
}

/// A rank that is ahead of its link by less than this does not sleep, because short sleeps take longer than requested.
const MIN_SLEEP: Duration = Duration::from_millis(2);

impl Links {
    /// Creates `nodes` links with `rate` bytes per second each.
    pub fn new(nodes: usize, rate: f64) -> Links {
        Links { rate, free: (0..nodes).map(|_| Mutex::new([Instant::now(); 2])).collect() }
    }

    /// Delays the caller by the time that `bytes` take between two nodes.
    fn delay_transfer(&self, from: u32, to: u32, bytes: usize) {
        let (Some(outwards), Some(inwards)) = (self.free.get(from as usize), self.free.get(to as usize)) else {
            return;
        };
        if from == to {
            return;
        }
        let takes = Duration::from_secs_f64(bytes as f64 / self.rate);
        let done = |place: &mut Instant| {
            *place = (*place).max(Instant::now()) + takes;
            *place
        };
        // The locks are taken one after the other, never both at once: two nodes that send to each other could
        // deadlock.
        let end = done(&mut outwards.lock()[0]);
        let end = end.max(done(&mut inwards.lock()[1]));
        let ahead = end.saturating_duration_since(Instant::now());
        if ahead > MIN_SLEEP {
            thread::sleep(ahead);
        }
    }
}

/// A world whose messages are delayed by links.
pub struct Throttled<'w> {
    /// The ranks.
    pub world: &'w dyn World,
    /// The links of their nodes, the same for all.
    pub links: &'w Links,
}

impl World for Throttled<'_> {
    fn rank(&self) -> u32 {
        self.world.rank()
    }

    fn nodes(&self) -> &[u32] {
        self.world.nodes()
    }

    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.world.all_gather(mine)
    }

    fn most(&self, mine: u64) -> Result<u64> {
        self.world.most(mine)
    }

    fn send(&self, to: u32, bytes: &[u8]) -> Result<()> {
        self.links.delay_transfer(self.node(), self.nodes()[to as usize], bytes.len());
        self.world.send(to, bytes)
    }

    fn receive(&self, from: u32) -> Result<Vec<u8>> {
        self.world.receive(from)
    }

    fn window<'b>(&'b self, bytes: usize) -> Result<Box<dyn Window<'b> + 'b>> {
        Ok(Box::new(ThrottledWindow { window: self.world.window(bytes)?, world: self }))
    }
}

struct ThrottledWindow<'b> {
    window: Box<dyn Window<'b> + 'b>,
    world: &'b Throttled<'b>,
}

impl<'b> Window<'b> for ThrottledWindow<'b> {
    fn put(&mut self, to: u32, offset: usize, bytes: &'b [u8]) -> Result<()> {
        let nodes = self.world.nodes();
        self.world.links.delay_transfer(self.world.node(), nodes[to as usize], bytes.len());
        self.window.put(to, offset, bytes)
    }

    fn fence(&mut self) -> Result<()> {
        self.window.fence()
    }

    fn read(&self, sink: &mut dyn FnMut(&[u8])) {
        self.window.read(sink)
    }
}
