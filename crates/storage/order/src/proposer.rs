//! [`Proposer`]: one node's appends, one after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use terrace_format::{Change, Proposal, Step};

/// A record has at most this many bytes of steps. Logs limit the size of a record; etcd's limit is 1.5 MiB.
const MAX_RECORD_BYTES: usize = 1 << 20;
/// A longer change goes into the log in pieces.
const MAX_CHANGE_BYTES: usize = 1 << 19;
/// A change may have this many bytes: that of a rename of some hundred thousand keys. All nodes carry it out in one transaction.
const MAX_WHOLE_BYTES: usize = 32 << 20;

/// A record to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// The incarnation that the node's fence must have.
    pub incarnation: u64,
    /// The number of records that this incarnation must have appended so far.
    pub number: u64,
    /// The record.
    pub record: Arc<[u8]>,
}

/// The log's answer to an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The record is in the log, now or since an earlier attempt, at this slot.
    At(u64),
    /// The record was in the log, which has been trimmed since. The index of a node that is up to date has its verdicts.
    Trimmed,
    /// The record is not in the log and never will be, as the fence has gone.
    Fenced,
}

/// Whether a step is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is in the log, as this step of the record at this slot. Its verdict is known once that is carried out.
    At {
        /// The record's slot.
        slot: u64,
        /// The index of the step in the record.
        step: usize,
    },
    /// It is in the log before its present head.
    BeforeHead,
    /// It is not in the log and never will be by this proposer.
    NotCarriedOut,
}

/// A step that does not fit into a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a change of {bytes} bytes is too large for the shared log; split it")]
pub struct TooLarge {
    /// The size of the encoded step.
    pub bytes: usize,
}

/// Returns the steps that carry out a change, as [`Step::change`] does.
///
/// # Errors
/// [`TooLarge`] if it cannot be one change.
pub fn steps_of(session: u64, number: u64, change: &Change) -> Result<Vec<Step>, TooLarge> {
    let steps = Step::change(session, number, change, MAX_CHANGE_BYTES);
    let bytes = steps.iter().map(Step::encoded_len).sum();
    if bytes > MAX_WHOLE_BYTES { Err(TooLarge { bytes }) } else { Ok(steps) }
}

/// Appends the steps of one incarnation of a node. One append is under way at a time: several would overtake each other. Steps that
/// come meanwhile wait, and go into one record. `T` tells the caller whose step it is.
///
/// ```
/// use terrace_format::Change;
/// use terrace_order::{Answer, Fate, Proposer, steps_of};
///
/// let (store, incarnation, session) = (7, 1, 3);
/// let mut proposer = Proposer::new(store, incarnation);
/// let change = Change { expect: Vec::new(), edits: Vec::new() };
/// for step in steps_of(session, 1, &change)? {
///     proposer.propose("mine", step)?;
/// }
/// let append = proposer.append(0).expect("steps wait").clone();
/// // The caller sends it. While no answer comes, it sends the same append again.
/// assert_eq!(proposer.append(1), Some(&append));
/// let fates = proposer.answer(append.number, Answer::At(12));
/// assert_eq!(fates, [("mine", Fate::At { slot: 12, step: 0 })]);
/// # Ok::<(), terrace_order::TooLarge>(())
/// ```
pub struct Proposer<T> {
    store: u64,
    incarnation: u64,
    /// The number of the append that is under way, or else of the next one.
    number: u64,
    under_way: Option<(Append, Vec<T>)>,
    waiting: VecDeque<(T, Step, usize)>,
    is_fenced: bool,
}

impl<T> Proposer<T> {
    /// Starts with the first record of an incarnation, which no other proposer may use.
    pub fn new(store: u64, incarnation: u64) -> Self {
        Proposer { store, incarnation, number: 0, under_way: None, waiting: VecDeque::new(), is_fenced: false }
    }

    /// Returns the incarnation.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Returns whether the fence has gone. All steps are refused from then on, and the node must join again.
    pub fn is_fenced(&self) -> bool {
        self.is_fenced
    }

    /// Adds a step to the next record.
    ///
    /// # Errors
    /// [`TooLarge`] if it does not fit into a record.
    pub fn propose(&mut self, whose: T, step: Step) -> Result<(), TooLarge> {
        let bytes = step.encoded_len();
        if bytes > MAX_RECORD_BYTES {
            return Err(TooLarge { bytes });
        }
        self.waiting.push_back((whose, step, bytes));
        Ok(())
    }

    /// Returns the append to send: the one that is under way, again, or a new one of the steps that wait. It may be sent any number
    /// of times, and to any member of the log.
    pub fn append(&mut self, time: u64) -> Option<&Append> {
        if self.under_way.is_none() && !self.waiting.is_empty() && !self.is_fenced {
            let (mut bytes, mut steps, mut whose) = (0, Vec::new(), Vec::new());
            while let Some((whose_step, step, length)) =
                self.waiting.pop_front_if(|next| bytes + next.2 <= MAX_RECORD_BYTES)
            {
                bytes += length;
                steps.push(step);
                whose.push(whose_step);
            }
            let (incarnation, number) = (self.incarnation, self.number);
            let record = Proposal { incarnation, number, time, steps }.encode(self.store).into();
            self.under_way = Some((Append { incarnation, number, record }, whose));
        }
        self.under_way.as_ref().map(|(append, _)| append)
    }

    /// Takes the log's answer to the append of this number, and returns the fates of the steps that it decides. Answers to earlier
    /// appends come late, and change nothing. No answer at all changes nothing either: the outcome is not known, and only the same
    /// append may be sent.
    pub fn answer(&mut self, number: u64, answer: Answer) -> Vec<(T, Fate)> {
        let Some((_, whose)) = self.under_way.take_if(|(append, _)| append.number == number) else { return Vec::new() };
        self.number += 1;
        match answer {
            Answer::At(slot) => {
                whose.into_iter().enumerate().map(|(step, whose)| (whose, Fate::At { slot, step })).collect()
            }
            Answer::Trimmed => whose.into_iter().map(|whose| (whose, Fate::BeforeHead)).collect(),
            Answer::Fenced => {
                self.is_fenced = true;
                let waiting = self.waiting.drain(..).map(|(whose, ..)| whose);
                whose.into_iter().chain(waiting).map(|whose| (whose, Fate::NotCarriedOut)).collect()
            }
        }
    }
}
