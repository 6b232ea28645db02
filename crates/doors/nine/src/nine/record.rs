//! What is told about a file: `stat(5)`.

use super::message::{Damaged, Fields};

/// The bit of a directory in a mode.
pub const DIRECTORY: u32 = 1 << 31;
/// The bit of a file that is not backed up, which means nothing here.
pub const TEMPORARY: u32 = 1 << 26;

/// What tells files apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qid {
    /// The upper byte of the mode.
    pub kind: u8,
    /// Another one when the file was changed.
    pub version: u32,
    /// A number that no other file has.
    pub path: u64,
}

/// What is told about a file. In a `Twstat` numbers of ones and empty texts stand for what is not to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// For the kernel's use.
    pub kind: u16,
    /// For the kernel's use.
    pub device: u32,
    /// What tells it apart.
    pub qid: Qid,
    /// Permissions, and [`DIRECTORY`].
    pub mode: u32,
    /// The time of access: seconds since 1970.
    pub accessed: u32,
    /// The time of modification: seconds since 1970.
    pub modified: u32,
    /// Bytes; 0 for a directory.
    pub length: u64,
    /// The name in its directory; `/` for the root.
    pub name: &'a [u8],
    /// Whose it is.
    pub owner: &'a [u8],
    /// The group.
    pub group: &'a [u8],
    /// Who changed it last.
    pub changer: &'a [u8],
}

impl<'a> Record<'a> {
    /// Changes nothing: a wish that all be durable.
    pub const UNTOUCHED: Record<'static> = Record {
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

    /// Reads one, with its length before it.
    ///
    /// # Errors
    /// Where it is damaged.
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

    /// How many bytes [`encode`](Self::encode) takes.
    pub fn size(&self) -> usize {
        2 + 39 + [self.name, self.owner, self.group, self.changer].iter().map(|text| 2 + text.len()).sum::<usize>()
    }

    /// Writes it, with its length before it.
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
    /// Writes it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.kind);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.path.to_le_bytes());
    }
}

/// Writes a text; what is too long for one is cut.
pub(super) fn text(out: &mut Vec<u8>, text: &[u8]) {
    let text = &text[..text.len().min(u16::MAX.into())];
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text);
}
