//! Changes a file's attributes: `wstat` in `stat(5)`.

use terrace::Kind;
use terrace::files::Setting;

use super::directory::record;
use super::record::{MODE_DIRECTORY, Record};
use super::refusal::{Answer, NO_CONVERSION, NO_WSTAT, errno};
use super::session::Session;

impl Session {
    /// Applies the changes of a record; a record without changes makes the file durable.
    pub(super) fn set(&mut self, fid: u32, wanted: &Record) -> Answer<()> {
        let fid = self.fids.get(fid)?;
        let number = fid.held.number();
        let tree = &self.tree;
        if *wanted == Record::NO_CHANGE {
            let synced = match fid.open() {
                Some(open) => tree.sync(open),
                None => tree.sync_number(number),
            };
            return Ok(synced?);
        }
        let node = tree.node(number, fid.open())?;
        let is_directory = node.stat.kind == Kind::Directory;
        record(&node, b"", |known| check(wanted, &known))?;
        let size = (wanted.length != u64::MAX).then_some(wanted.length);
        if is_directory && size.is_some_and(|size| size > 0) {
            return Err(errno(libc::EISDIR));
        }
        // Start with the change that is most likely to fail, because the request must apply completely or not at all.
        if !wanted.name.is_empty() && tree.place(number)?.1 != wanted.name {
            tree.rename_number(number, wanted.name)?;
        }
        let seconds = |seconds: u32| (seconds != u32::MAX).then_some(i64::from(seconds) * 1_000_000_000);
        let setting = Setting {
            mode: (wanted.mode != u32::MAX).then_some(wanted.mode & 0o777),
            uid: None,
            gid: None,
            accessed: seconds(wanted.accessed),
            modified: seconds(wanted.modified),
        };
        tree.set(number, fid.open(), size.filter(|_| !is_directory), &setting)?;
        Ok(())
    }
}

/// Rejects changes of fixed attributes.
fn check(wanted: &Record, known: &Record) -> Answer<()> {
    let same = |wanted: u64, none: u64, known: u64| wanted == none || wanted == known;
    let word = |wanted: &[u8], known: &[u8]| wanted.is_empty() || wanted == known;
    let kept = same(wanted.kind.into(), u16::MAX.into(), known.kind.into())
        && same(wanted.device.into(), u32::MAX.into(), known.device.into())
        && same(wanted.qid.kind.into(), u8::MAX.into(), known.qid.kind.into())
        && same(wanted.qid.path, u64::MAX, known.qid.path)
        && word(wanted.owner, known.owner)
        && word(wanted.group, known.group)
        && word(wanted.changer, known.changer);
    if !kept {
        return Err(NO_WSTAT);
    }
    if wanted.mode == u32::MAX {
        return Ok(());
    }
    match (wanted.mode ^ known.mode) & !0o777 {
        0 => Ok(()),
        MODE_DIRECTORY => Err(NO_CONVERSION),
        _ => Err(errno(libc::EOPNOTSUPP)),
    }
}
