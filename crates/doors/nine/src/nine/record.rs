//! The record of a file's attributes: `stat(5)`.

use super::fields::{Damaged, Fields};

/// The mode bit of a directory.
pub const MODE_DIRECTORY: u32 = 1 << 31;
/// The mode bit of a file that is not backed up; it has no effect here.
pub const MODE_TEMPORARY: u32 = 1 << 26;

/// The identity of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qid {
    /// The upper byte of the mode.
    pub kind: u8,
    /// The version, which differs after each change of the file.
    pub version: u32,
    /// A number that identifies the file.
    pub path: u64,
}

/// The attributes of a file. In a `Twstat`, a number of all ones and an empty string leave the attribute unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// For the kernel's use.
    pub kind: u16,
    /// For the kernel's use.
    pub device: u32,
    /// Its identity.
    pub qid: Qid,
    /// Permissions, and [`MODE_DIRECTORY`].
    pub mode: u32,
    /// The time of access: seconds since 1970.
    pub accessed: u32,
    /// The time of modification: seconds since 1970.
    pub modified: u32,
    /// Bytes; 0 for a directory.
    pub length: u64,
    /// The name in its directory; `/` for the root.
    pub name: &'a [u8],
    /// The owner.
    pub owner: &'a [u8],
    /// The group.
    pub group: &'a [u8],
    /// The user who changed it last.
    pub changer: &'a [u8],
}

impl<'a> Record<'a> {
    /// Changes no attribute: a request to make everything durable.
    pub const NO_CHANGE: Record<'static> = Record {
        kind: u16::MAX,
        device: u32::MAX,
        qid: Qid { kind: u8::MAX, version: u32::MAX, path: u64::MAX },
        mode: u32::MAX,
        accessed: u32::MAX,
        modified: u32::MAX,
        length: u64::MAX,
        name: b"",
        owner: b"",
        group: b"",
        changer: b"",
    };

    /// Decodes a record that is preceded by its length.
    ///
    /// # Errors
    /// If the record is malformed.
    pub fn decode(fields: &mut Fields<'a>) -> Result<Record<'a>, Damaged> {
        let length = fields.two()?;
        let mut f = Fields(fields.take(length.into())?);
        let record = Record {
            kind: f.two()?,
            device: f.four()?,
            qid: Qid { kind: f.one()?, version: f.four()?, path: f.eight()? },
            mode: f.four()?,
            accessed: f.four()?,
            modified: f.four()?,
            length: f.eight()?,
            name: f.text()?,
            owner: f.text()?,
            group: f.text()?,
            changer: f.text()?,
        };
        f.end()?;
        Ok(record)
    }

    /// The size of the record that [`encode`](Self::encode) writes.
    pub fn size(&self) -> usize {
        2 + 39 + [self.name, self.owner, self.group, self.changer].iter().map(|text| 2 + text.len()).sum::<usize>()
    }

    /// Encodes the record, preceded by its length.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&((self.size() - 2) as u16).to_le_bytes());
        out.extend_from_slice(&self.kind.to_le_bytes());
        out.extend_from_slice(&self.device.to_le_bytes());
        self.qid.encode(out);
        for number in [self.mode, self.accessed, self.modified] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.length.to_le_bytes());
        [self.name, self.owner, self.group, self.changer].iter().for_each(|each| text(out, each));
    }
}

impl Qid {
    /// Encodes the record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.kind);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.path.to_le_bytes());
    }
}

/// Encodes a string and truncates one that is too long.
pub(super) fn text(out: &mut Vec<u8>, text: &[u8]) {
    let text = &text[..text.len().min(u16::MAX.into())];
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text);
}
