//! Opening, creating, reading, writing and closing files: `open(5)`, `read(5)`, `clunk(5)`.

use terrace::Kind;
use terrace::files::Setting;
use terrace_tree::{Node, Open};

use super::directory::{Directory, qid};
use super::fids::{Fid, State};
use super::held::Held;
use super::record::{MODE_DIRECTORY, MODE_TEMPORARY, Qid};
use super::refusal::{Answer, BAD_USE, errno};
use super::session::Session;

const MODE_TRUNCATE: u8 = 0x10;
const MODE_REMOVE_ON_CLOSE: u8 = 0x40;
/// Writes go to the file's end, whatever their offset. The bit is that of 9P2000.u.
const MODE_APPEND: u8 = 0x80;

/// The access for which a file is opened.
#[derive(Clone, Copy)]
struct Mode {
    reads: bool,
    writes: bool,
    cuts: bool,
    removes: bool,
    appends: bool,
}

impl Mode {
    fn of(mode: u8) -> Mode {
        // The modes are read, write, both, and execute, which reads.
        let (reads, writes) = [(true, false), (false, true), (true, true), (true, false)][usize::from(mode & 3)];
        Mode {
            reads,
            writes,
            cuts: mode & MODE_TRUNCATE != 0,
            removes: mode & MODE_REMOVE_ON_CLOSE != 0,
            appends: mode & MODE_APPEND != 0,
        }
    }

    /// Whether a directory can be opened with this access.
    fn only_reads(self) -> bool {
        !self.writes && !self.cuts && !self.removes
    }

    fn state(self, open: Open) -> State {
        State::File { open, reads: self.reads, writes: self.writes, appends: self.appends, removed: self.removes }
    }
}

impl Session {
    pub(super) fn open(&mut self, fid: u32, mode: u8) -> Answer<Qid> {
        let fid = self.fids.get_mut(fid)?;
        if fid.is_open() {
            return Err(BAD_USE);
        }
        let mode = Mode::of(mode);
        let number = fid.held.number();
        let node = self.tree.node(number, None)?;
        if node.stat.kind == Kind::Directory {
            if !mode.only_reads() {
                return Err(errno(libc::EISDIR));
            }
            fid.state = State::Directory(Directory::default());
            return Ok(qid(&node));
        }
        if terrace_tree::is_view(number) && (mode.removes || mode.writes && node.stat.mode & 0o200 == 0) {
            return Err(errno(libc::EROFS));
        }
        let open = if mode.writes { self.tree.open_to_write(number)? } else { self.tree.open(number)? };
        if mode.cuts {
            self.tree.set(number, Some(&open), Some(0), &Setting::default())?;
        }
        fid.state = mode.state(open);
        Ok(qid(&node))
    }

    /// Creates a file or a directory and opens it. The directory's fid then stands for the new file.
    pub(super) fn create(&mut self, fid: u32, name: &[u8], perm: u32, mode: u8) -> Answer<Qid> {
        let fid = self.fids.get_mut(fid)?;
        let mode = Mode::of(mode);
        let kind = perm & !(0o777 | MODE_TEMPORARY);
        if fid.is_open() {
            return Err(BAD_USE);
        }
        if kind != 0 && kind != MODE_DIRECTORY {
            return Err(errno(libc::EOPNOTSUPP));
        }
        let above: Node = self.tree.node(fid.held.number(), None)?;
        let owner = self.tree.node(terrace_tree::ROOT_NODE, None)?.stat.owner;
        let (parent, inherited) = (above.number, above.stat.mode);
        let (node, state) = match kind {
            MODE_DIRECTORY if !mode.only_reads() => return Err(errno(libc::EISDIR)),
            MODE_DIRECTORY => {
                let mode = perm & (!0o777 | inherited & 0o777) & 0o777;
                let node = self.tree.make_directory(parent, name, mode, owner)?;
                (node, State::Directory(Directory::default()))
            }
            _ => {
                let bits = perm & (!0o666 | inherited & 0o666) & 0o777;
                let (node, open) = self.tree.create(parent, name, bits, owner, true)?;
                (node, mode.state(open))
            }
        };
        *fid = Fid { held: Held::of(&self.tree, &node), state };
        Ok(qid(&node))
    }

    pub(super) fn read_bytes(&mut self, fid: u32, offset: u64, out: &mut [u8]) -> Answer<usize> {
        let fid = self.fids.get_mut(fid)?;
        match &mut fid.state {
            State::Directory(directory) => directory.read(&self.tree, fid.held.number(), offset, out),
            State::File { open, reads: true, .. } => Ok(open.read_at(offset, out)?),
            _ => Err(BAD_USE),
        }
    }

    pub(super) fn write(&mut self, fid: u32, offset: u64, data: &[u8]) -> Answer<u32> {
        match &self.fids.get(fid)?.state {
            State::File { open, writes: true, appends: true, .. } => Ok(open.append(offset, data)? as u32),
            State::File { open, writes: true, .. } => Ok(open.write_at(offset, data)? as u32),
            _ => Err(BAD_USE),
        }
    }

    /// Closes the open file of a fid and writes its buffered bytes.
    pub(super) fn close(&self, fid: Fid) -> Answer<()> {
        let Fid { held, state } = fid;
        if let State::File { open, writes, removed, .. } = state {
            if removed {
                return Ok(self.tree.remove_number(held.number())?);
            }
            if writes {
                open.flush()?;
            }
        }
        Ok(())
    }
}
