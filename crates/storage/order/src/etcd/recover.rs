//! Makes the log again from a snapshot of a node, after etcd has lost it, or was restored from an older copy.

use etcd_client::{Compare, CompareOp, DeleteOptions, GetOptions, Txn, TxnOp, TxnOpResponse};

use super::keys::{Format, Keys, TrimmedTo, encode};
use super::members::Members;
use super::state::{decode_identity, encode_identity, get};
use crate::{LogIdentity, OfferedSnapshot, OrderError};

/// Makes the log, which begins behind `snapshot`. If this is interrupted, there is no log, and it may be repeated.
pub(super) async fn make_again(
    members: &Members,
    keys: &Keys,
    node: &str,
    identity: LogIdentity,
    snapshot: &OfferedSnapshot,
    force: bool,
) -> Result<(), OrderError> {
    check_lost(members, keys, identity, force).await?;
    let all = DeleteOptions::new().with_prefix();
    members.txn(Txn::new().and_then([TxnOp::delete(keys.all(), Some(all))])).await?;
    let is_absent = [keys.format(), keys.head()].map(|key| Compare::create_revision(key, CompareOp::Equal, 0));
    // The head's version is the slot of the last record, and only grows by one. Instead of a first record there is the snapshot.
    let trimmed = TrimmedTo { slot: snapshot.slot, ..TrimmedTo::default() };
    let puts = [
        TxnOp::put(keys.format(), encode(&Format::newest_known()), None),
        TxnOp::put(keys.council(), encode_identity(identity), None),
        TxnOp::put(keys.head(), "", None),
        TxnOp::put(keys.trimmed(), encode(&trimmed), None),
        TxnOp::put(keys.snapshot(node), encode(snapshot), None),
    ];
    match members.txn(Txn::new().when(is_absent).and_then(puts)).await?.succeeded() {
        true => Ok(()),
        false => Err(refused("another node has just made it")),
    }
}

/// Checks that what etcd has of the log is less than what the node has.
async fn check_lost(members: &Members, keys: &Keys, identity: LogIdentity, force: bool) -> Result<(), OrderError> {
    let fences = TxnOp::get(keys.fence(""), Some(GetOptions::new().with_prefix()));
    let answer = members.txn(Txn::new().and_then([fences, get(keys.council()), get(keys.head())])).await?;
    let found = answer.op_responses().into_iter().map(|response| match response {
        TxnOpResponse::Get(mut get) => get.take_kvs(),
        _ => Vec::new(),
    });
    let mut found = found.map(Vec::into_iter);
    let mut next = || found.next().into_iter().flatten().next();
    let (fence, council, head) = (next(), next(), next());
    if let Some(node) = fence.and_then(|fence| keys.parse_node(fence.key())) {
        return Err(refused(&format!("node {node} follows it; end all nodes, and wait ten seconds")));
    }
    let (Some(council), Some(before)) = (council, identity.before) else { return Ok(()) };
    let head = head.map_or(0, |head| head.version() as u64);
    let found = decode_identity(keys, &council)?;
    let again = found.before.filter(|again| again.number == before.number);
    match again {
        Some(again) if again.slot >= before.slot => {
            Err(refused("it was made again already, with all records that this node has; start the nodes"))
        }
        // The snapshot is the first record.
        Some(again) if head > 1 && !force => Err(refused(&format!(
            "it was made again already, from a node that had {} records, and was used since; this node has {}; repeat this with --force to make it \
             from here, without what was changed since",
            again.slot, before.slot
        ))),
        Some(_) => Ok(()),
        None if found.number != before.number => {
            Err(refused("another log is in its place; check the servers' addresses"))
        }
        None if head >= before.slot => Err(refused("it is there, and has all records that this node has")),
        None => Ok(()),
    }
}

fn refused(why: &str) -> OrderError {
    OrderError::Refused { reason: format!("the log is not made again: {why}") }
}
