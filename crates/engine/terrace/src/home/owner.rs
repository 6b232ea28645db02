//! The file `owner`: the mark by which targets know the directory of the store that uses them.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use terrace_system::{Locked, read_regular};
use terrace_tier::{OWNER_FILE, OwnerMark};

use super::boot::random_id;
use super::machine::host_name;
use crate::{Error, Result};

/// Makes the mark of the store in `dir`, if it has none, in the place of a directory with the mark `before`. Returns it.
pub fn note_owner(dir: &Path, before: Option<&OwnerMark>) -> Result<OwnerMark> {
    let path = dir.join(OWNER_FILE);
    let note = || -> std::io::Result<OwnerMark> {
        let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(&path)?;
        // Held until the mark is there: of two processes, one makes it.
        let file = Locked::wait(file)?;
        let found = OwnerMark::read(&read_regular(&path)?);
        if found.is_whole() {
            return Ok(found);
        }
        let mark = OwnerMark::new(&host_name(), random_id()?, before);
        file.set_len(0)?;
        file.write_all_at(&mark.bytes(), 0)?;
        // Durable before a target has it: otherwise a power cut would leave a target that belongs to nobody.
        file.sync_all()?;
        File::open(dir)?.sync_all()?;
        Ok(mark)
    };
    note().map_err(Error::io(format!("writing {}", path.display())))
}
