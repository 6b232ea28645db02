//! A node's fence, and the lease that keeps it.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Compare, CompareOp, PutOptions, Txn, TxnOp};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::keys::{Format, encode};
use super::members::{ATTEMPT_TIMEOUT, Members, revision};
use super::state::{Core, get, only_values};
use crate::OrderError;

/// A lease is kept this often during its time.
const KEEPS_PER_LEASE: u32 = 4;

/// The present fence of this process.
pub(super) struct Fence {
    pub incarnation: u64,
    pub lease: i64,
    keeper: JoinHandle<()>,
}

impl Drop for Fence {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl Core {
    /// Takes the node's fence. A fence of its `last` incarnation is removed first.
    pub(super) async fn join(&self, last: Option<u64>, lease: Duration) -> Result<Fence, OrderError> {
        let seconds = lease.as_secs().max(1) as i64;
        let (lease, seconds) = self
            .members
            .call(async |mut member| {
                let granted = member.lease.grant(seconds, None).await?;
                Ok((granted.id(), granted.ttl()))
            })
            .await?;
        // What the server grants may be longer: it has a least time, which follows from its elections.
        let keeper = tokio::spawn(keep(self.members.clone(), lease, Duration::from_secs(seconds.max(1) as u64)));
        match self.take_fence(last, lease).await {
            Ok(incarnation) => Ok(Fence { incarnation, lease, keeper }),
            Err(failed) => {
                keeper.abort();
                // If this fails too, the lease ends by itself.
                let _ = self.revoke(lease).await;
                Err(failed)
            }
        }
    }

    async fn take_fence(&self, last: Option<u64>, lease: i64) -> Result<u64, OrderError> {
        let key = self.keys.fence(&self.node);
        loop {
            let is_absent = [Compare::create_revision(key.clone(), CompareOp::Equal, 0)];
            let options = PutOptions::new().with_lease(lease);
            let put = [TxnOp::put(key.clone(), encode(&Format::newest_known()), Some(options))];
            let answer = self.members.txn(Txn::new().when(is_absent).and_then(put).or_else([get(key.clone())])).await?;
            if answer.succeeded() {
                return Ok(revision(&answer) as u64);
            }
            let [Some(fence)] = only_values(&answer) else {
                return Err(OrderError::Damaged { what: format!("{key} is there, and is not") });
            };
            let incarnation = fence.create_revision() as u64;
            if fence.lease() == lease {
                // The answer of an earlier attempt was lost.
                return Ok(incarnation);
            }
            if last != Some(incarnation) {
                return Err(OrderError::Taken { node: self.node.clone(), incarnation });
            }
            self.remove_fence(incarnation).await?;
        }
    }

    /// Removes the node's fence if it has this incarnation. Appends of it that are still on their way are refused from then on.
    async fn remove_fence(&self, incarnation: u64) -> Result<(), OrderError> {
        let key = self.keys.fence(&self.node);
        let is_it = [Compare::create_revision(key.clone(), CompareOp::Equal, incarnation as i64)];
        self.members.txn(Txn::new().when(is_it).and_then([TxnOp::delete(key, None)])).await.map(drop)
    }

    /// Removes the fence of this incarnation, and its lease if this process has it.
    pub(super) async fn leave(&self, incarnation: u64, fence: Option<Fence>) -> Result<(), OrderError> {
        self.remove_fence(incarnation).await?;
        if let Some(fence) = fence {
            // Nothing hangs on the lease any more. If this fails, it ends by itself.
            let _ = self.revoke(fence.lease).await;
        }
        Ok(())
    }

    async fn revoke(&self, lease: i64) -> Result<(), OrderError> {
        self.members.call(async |mut member| member.lease.revoke(lease).await).await.map(drop)
    }
}

/// Keeps a lease until it is gone.
async fn keep(members: Arc<Members>, lease: i64, time: Duration) {
    let pause = time / KEEPS_PER_LEASE;
    let mut at = members.preferred();
    loop {
        match keep_by(&members, at, lease, pause).await {
            Kept::Gone => {
                tracing::warn!(lease, "the lease of this node's fence has ended");
                return;
            }
            Kept::NoAnswer => {
                members.disconnect(at);
                at = members.after(at);
                // Another member is tried soon, well within the lease's time.
                sleep(pause / KEEPS_PER_LEASE).await;
            }
        }
    }
}

/// Why a member keeps a lease no longer.
enum Kept {
    Gone,
    NoAnswer,
}

/// Keeps a lease by this member, as long as it answers. A slow answer is none: there must be time for the other members.
async fn keep_by(members: &Members, at: usize, lease: i64, pause: Duration) -> Kept {
    let patience = pause.min(ATTEMPT_TIMEOUT);
    let begin = async {
        let mut member = members.member(at).await.ok()?;
        match member.lease.keep_alive(lease).await {
            Ok(stream) => Some(Ok(stream)),
            // The client makes this error if the server says that no time is left.
            Err(etcd_client::Error::LeaseKeepAliveError(_)) => Some(Err(())),
            Err(_) => None,
        }
    };
    let (mut requests, mut answers) = match timeout(patience, begin).await {
        Ok(Some(Ok(stream))) => stream,
        Ok(Some(Err(()))) => return Kept::Gone,
        Ok(None) | Err(_) => return Kept::NoAnswer,
    };
    loop {
        sleep(pause).await;
        if requests.keep_alive().await.is_err() {
            return Kept::NoAnswer;
        }
        match timeout(patience, answers.message()).await {
            Ok(Ok(Some(answer))) if answer.ttl() > 0 => {}
            Ok(Ok(Some(_))) => return Kept::Gone,
            _ => return Kept::NoAnswer,
        }
    }
}
