//! Directory reads, which return whole records.

use std::sync::Arc;

use terrace::Kind;
use terrace::files::Stat;
use terrace_tree::{Listed, Node, Tree};

use super::held::Held;
use super::record::{MODE_DIRECTORY, Qid, Record};
use super::refusal::{Answer, BAD_OFFSET, errno};

/// An open directory, with its content when it was last read from the start.
#[derive(Default)]
pub struct Directory {
    names: std::vec::IntoIter<Listed>,
    /// A record that did not fit the last read.
    left: Vec<u8>,
    /// The offset at which the next read must continue.
    offset: u64,
}

impl Directory {
    /// Writes as many records as fit into `out`, and returns their bytes.
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
                // Skip entries that were removed meanwhile.
                let Ok(node) = tree.find(number, &listed.name) else { continue };
                let _held = Held::of(tree, &node);
                record(&node, &listed.name, |record| record.encode(&mut self.left));
            }
            let Some(place) = out.get_mut(filled..filled + self.left.len()) else {
                // Fail instead of returning nothing: a client whose buffer is smaller than the next record would retry forever.
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

/// Returns the identity of a file.
pub fn qid(node: &Node) -> Qid {
    let modified = node.stat.modified as u64;
    Qid { kind: (mode(&node.stat) >> 24) as u8, version: (modified ^ modified >> 32) as u32, path: node.number }
}

fn mode(stat: &Stat) -> u32 {
    stat.mode & 0o777 | if stat.kind == Kind::Directory { MODE_DIRECTORY } else { 0 }
}

/// Passes a file's attributes to `use_it`. Users and groups are given as numbers.
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
