//! [`Proposal`]: a record of a log that several nodes share.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{Change, TargetId};

const PROPOSAL_MAGIC: [u8; 4] = *b"TRSP";
const PROPOSAL_VERSION: u8 = 1;
/// Magic, version, three zeros, and the checksum.
const PROPOSAL_HEADER_BYTES: usize = 16;

/// A record of a shared log: the steps that one node appends together. Each node that follows the log carries them out in the same way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// The incarnation of the node: the number of its present membership in the log.
    pub incarnation: u64,
    /// The number of the record among those of the incarnation, from 0.
    pub number: u64,
    /// The node's time, in seconds since 1970.
    pub time: u64,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One step of a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// A client begins. Only then are its changes carried out.
    Begin {
        /// The client's session.
        session: u64,
    },
    /// A client's change.
    Change {
        /// The client's session.
        session: u64,
        /// The number of the change in the session. A repeated number gets the outcome that the first one had.
        number: u64,
        /// The change.
        change: Change,
    },
    /// A client has ended. Its later changes are refused.
    End {
        /// The client's session.
        session: u64,
    },
    /// The node of this record begins an incarnation, which gets a short number: one more than the last incarnation that joined.
    Join {
        /// The node's name.
        node: String,
    },
    /// An incarnation has ended: its fence was removed, so it cannot append any more records.
    Leave {
        /// The incarnation.
        incarnation: u64,
    },
    /// How far the node of this record has followed the log, and what its clients read.
    Report {
        /// The last commit that its index has.
        sequence: u64,
        /// Objects that are open, each with the generation that is read.
        pins: Vec<(u64, u64)>,
    },
    /// The node of this record serves a target from now on. A change that names a frame which an earlier incarnation appended there is then
    /// refused, unless an earlier change has named the frame: a power cut may have destroyed it.
    Serve {
        /// The target.
        target: TargetId,
        /// Whether its frames survive a loss of power once they are synced.
        persistent: bool,
        /// Whether the node may have lost power, so that frames which were not synced may be gone.
        doubtful: bool,
    },
    /// The node of this record, which serves a target, has synced it: each frame there that any commit up to `sequence` names is whole.
    Synced {
        /// The target.
        target: TargetId,
        /// The last of these commits.
        sequence: u64,
    },
    /// The places that commits up to `sequence` have freed may be used again, except those that are pinned.
    Floor {
        /// The last of these commits.
        sequence: u64,
    },
    /// A piece of a client's change that does not fit into a record. It is kept until the change is whole, or its session ends.
    Piece {
        /// The client's session.
        session: u64,
        /// The number of the change in the session.
        number: u64,
        /// The number of the piece, from 0.
        piece: u32,
        /// Its bytes.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// A client's change that was too long for one step. The pieces before this step, joined, are its encoded form.
    Whole {
        /// The client's session.
        session: u64,
        /// The number of the change in the session.
        number: u64,
        /// How many pieces there are.
        pieces: u32,
    },
}

/// The reason why this version cannot carry out a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProposalError {
    /// They are not the bytes that were appended.
    #[error("a record of the shared log is damaged")]
    Damaged,
    /// They are whole, and of a newer version.
    #[error(
        "a record of the shared log was made by a newer terrace, and this one does not know what it does; use the newer one"
    )]
    Newer,
}

impl Step {
    /// Returns the steps that carry out a client's change: one, or several if one would take more than `max_bytes` in a record. The verdict on
    /// the last step is that on the change.
    pub fn change(session: u64, number: u64, change: &Change, max_bytes: usize) -> Vec<Step> {
        let step = Step::Change { session, number, change: change.clone() };
        if step.encoded_len() <= max_bytes {
            return vec![step];
        }
        // Encoding into memory fails only for sequences of unknown length, and there are none here.
        let bytes = postcard::to_stdvec(change).unwrap_or_default();
        let mut steps: Vec<Step> = (0..)
            .zip(bytes.chunks(max_bytes.max(1)))
            .map(|(piece, bytes)| Step::Piece { session, number, piece, bytes: bytes.to_vec() })
            .collect();
        steps.push(Step::Whole { session, number, pieces: steps.len() as u32 });
        steps
    }

    /// Decodes a change from its joined pieces. None if this version knows no such change.
    pub fn join(pieces: &[u8]) -> Option<Change> {
        postcard::from_bytes(pieces).ok()
    }

    /// Returns the number of bytes that it takes in a record.
    pub fn encoded_len(&self) -> usize {
        postcard::experimental::serialized_size(self).unwrap_or(usize::MAX)
    }
}

impl Proposal {
    /// Returns the bytes of the record, for the store with this id.
    pub fn encode(&self, store: u64) -> Vec<u8> {
        let mut record = Vec::with_capacity(PROPOSAL_HEADER_BYTES);
        record.extend_from_slice(&PROPOSAL_MAGIC);
        record.extend_from_slice(&[PROPOSAL_VERSION, 0, 0, 0]);
        record.extend_from_slice(&[0; 8]);
        // Encoding into memory fails only for sequences of unknown length, and there are none here.
        let mut record = postcard::to_extend(self, record).unwrap_or_default();
        let checksum = xxh3_64_with_seed(&record, store);
        if let Some(place) = record.get_mut(8..PROPOSAL_HEADER_BYTES) {
            place.copy_from_slice(&checksum.to_le_bytes());
        }
        record
    }

    /// Reads a record of the store with this id.
    ///
    /// # Errors
    /// [`ProposalError::Damaged`] if the checksum is wrong, as it is for another store's record. [`ProposalError::Newer`] if the
    /// bytes are whole, but hold a version or an edit that is not known here.
    pub fn decode(record: &[u8], store: u64) -> Result<Proposal, ProposalError> {
        let (header, body) = record.split_at_checked(PROPOSAL_HEADER_BYTES).ok_or(ProposalError::Damaged)?;
        let mut zeroed = record.to_vec();
        zeroed[8..PROPOSAL_HEADER_BYTES].fill(0);
        if header[..4] != PROPOSAL_MAGIC || header[8..] != xxh3_64_with_seed(&zeroed, store).to_le_bytes() {
            return Err(ProposalError::Damaged);
        }
        if header[4] != PROPOSAL_VERSION {
            return Err(ProposalError::Newer);
        }
        match postcard::take_from_bytes(body) {
            Ok((proposal, [])) => Ok(proposal),
            _ => Err(ProposalError::Newer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Edit;

    fn proposal() -> Proposal {
        let change = Change::from(Edit::Remove { key: b"k".to_vec() });
        Proposal {
            incarnation: 3,
            number: 0,
            time: 7,
            steps: vec![Step::Begin { session: 9 }, Step::Change { session: 9, number: 1, change }],
        }
    }

    #[test]
    fn a_record_is_read_back_and_no_other_bytes_are() {
        let record = proposal().encode(1);
        assert_eq!(Proposal::decode(&record, 1), Ok(proposal()));
        assert_eq!(Proposal::decode(&record, 2), Err(ProposalError::Damaged));
        for at in 0..record.len() {
            let mut damaged = record.clone();
            damaged[at] ^= 1;
            assert_eq!(Proposal::decode(&damaged, 1), Err(ProposalError::Damaged), "byte {at}");
            assert_eq!(Proposal::decode(&record[..at], 1), Err(ProposalError::Damaged), "{at} bytes");
        }
    }

    #[test]
    fn a_change_of_several_steps_is_joined_again() {
        let edits: Vec<Edit> = (0..100).map(|n| Edit::Remove { key: format!("key {n}").into_bytes() }).collect();
        let change = Change { expect: Vec::new(), edits };
        assert_eq!(
            Step::change(9, 1, &change, usize::MAX),
            [Step::Change { session: 9, number: 1, change: change.clone() }]
        );
        let steps = Step::change(9, 1, &change, 100);
        let (last, pieces) = steps.split_last().expect("steps");
        assert_eq!(last, &Step::Whole { session: 9, number: 1, pieces: pieces.len() as u32 });
        let bytes = pieces.iter().flat_map(|piece| match piece {
            Step::Piece { bytes, .. } => bytes.clone(),
            step => unreachable!("{step:?}"),
        });
        let bytes: Vec<u8> = bytes.collect();
        assert_eq!(Step::join(&bytes), Some(change));
        assert_eq!(Step::join(&bytes[..bytes.len() - 1]), None);
    }

    #[test]
    fn a_newer_record_is_not_damaged() {
        for (at, value) in [(4, 2), (PROPOSAL_HEADER_BYTES + 3, 99)] {
            let mut newer = proposal().encode(1);
            newer[at] = value;
            newer[8..PROPOSAL_HEADER_BYTES].fill(0);
            let checksum = xxh3_64_with_seed(&newer, 1);
            newer[8..PROPOSAL_HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
            assert_eq!(Proposal::decode(&newer, 1), Err(ProposalError::Newer));
        }
    }
}
