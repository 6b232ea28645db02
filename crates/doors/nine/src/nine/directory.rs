//! Directories as they are read: as whole records.

use std::sync::Arc;

use terrace::Kind;
use terrace::files::Stat;
use terrace_tree::{Listed, Node, Tree};

use super::fids::Held;
use super::record::{DIRECTORY, Qid, Record};
use super::refusal::{Answer, BAD_OFFSET, errno};

/// An open directory, as it was when it was last read from the beginning.
#[derive(Default)]
pub struct Directory {
    names: std::vec::IntoIter<Listed>,
    /// A record that was too long for the last reader.
    left: Vec<u8>,
    /// Where the next reader must go on.
    offset: u64,
}

impl Directory {
    /// Puts as many records into `out` as it takes; the bytes.
    pub fn read(&mut self, tree: &Arc<Tree>, number: u64, offset: u64, out: &mut [u8]) -> Answer<usize> {
        if offset == 0 {
            *self = Directory { names: tree.list(number)?.into_iter(), ..Directory::default() };
        } else if offset != self.offset {
            return Err(BAD_OFFSET);
        }
        let mut filled = 0;
        loop {
            if self.left.is_empty() {
                let Some(listed) = self.names.next() else { break };
                // What was removed meanwhile is not shown.
                let Ok(node) = tree.find(number, &listed.name) else { continue };
                let _held = Held::of(tree, &node);
                record(&node, &listed.name, |record| record.encode(&mut self.left));
            }
            let Some(place) = out.get_mut(filled..filled + self.left.len()) else {
                // A reader for whom no record is short enough would wait for ever.
                if filled == 0 {
                    return Err(errno(libc::EINVAL));
                }
                break;
            };
            place.copy_from_slice(&self.left);
            filled += self.left.len();
            self.left.clear();
        }
        self.offset = offset + filled as u64;
        Ok(filled)
    }
}

/// What tells a file apart.
pub fn qid(node: &Node) -> Qid {
    let modified = node.stat.modified as u64;
    Qid { kind: (mode(&node.stat) >> 24) as u8, version: (modified ^ modified >> 32) as u32, path: node.number }
}

fn mode(stat: &Stat) -> u32 {
    stat.mode & 0o777 | if stat.kind == Kind::Directory { DIRECTORY } else { 0 }
}

/// Hands what is known about a file to `use_it`. Users and groups are told as numbers.
pub fn record<T>(node: &Node, name: &[u8], use_it: impl FnOnce(Record) -> T) -> T {
    let stat = &node.stat;
    let (owner, group) = (stat.owner.uid.to_string(), stat.owner.gid.to_string());
    let seconds = |nanoseconds: i64| u32::try_from(nanoseconds.max(0) / 1_000_000_000).unwrap_or(u32::MAX);
    use_it(Record {
        kind: 0,
        device: 0,
        qid: qid(node),
        mode: mode(stat),
        accessed: seconds(stat.accessed),
        modified: seconds(stat.modified),
        length: stat.length,
        name: if name.is_empty() { b"/" } else { name },
        owner: owner.as_bytes(),
        group: group.as_bytes(),
        changer: owner.as_bytes(),
    })
}
