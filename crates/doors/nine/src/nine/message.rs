//! Decoding of requests: `size[4] type[1] tag[2]`, then the fields of the type. Numbers are little-endian; strings are preceded by
//! `length[2]`.

pub use super::fields::Damaged;
use super::fields::Fields;
use super::record::Record;

/// The size of the largest message without its data, which a `Tversion` may request in addition to 1 MiB.
pub const MAX_OVERHEAD_BYTES: u32 = 24;
/// The tag of `Tversion`.
pub const NO_TAG: u16 = u16::MAX;
/// The fid of `Tattach` that stands for no fid.
pub const NO_FID: u32 = u32::MAX;
/// The largest number of names in one `Twalk`.
pub const MAX_WALK_NAMES: usize = 16;
/// The size of `size`, `type` and `tag`.
pub const HEADER_BYTES: usize = 7;

/// A request of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The manual's names say it.
pub enum Request<'a> {
    Version {
        msize: u32,
        version: &'a [u8],
    },
    Auth,
    Attach {
        fid: u32,
        afid: u32,
        uname: &'a [u8],
        aname: &'a [u8],
    },
    Flush,
    Walk {
        fid: u32,
        newfid: u32,
        names: Vec<&'a [u8]>,
    },
    Open {
        fid: u32,
        mode: u8,
    },
    Create {
        fid: u32,
        name: &'a [u8],
        perm: u32,
        mode: u8,
    },
    Read {
        fid: u32,
        offset: u64,
        count: u32,
    },
    Write {
        fid: u32,
        offset: u64,
        data: &'a [u8],
    },
    Clunk {
        fid: u32,
    },
    Remove {
        fid: u32,
    },
    Stat {
        fid: u32,
    },
    Wstat {
        fid: u32,
        record: Record<'a>,
    },
    /// A message of another protocol.
    Unknown,
}

impl<'a> Request<'a> {
    /// Decodes the request of a type from the bytes after the tag.
    ///
    /// # Errors
    /// If the message is too short or too long.
    pub fn decode(kind: u8, body: &'a [u8]) -> Result<Request<'a>, Damaged> {
        let mut fields = Fields(body);
        let f = &mut fields;
        let request = match kind {
            100 => Request::Version { msize: f.four()?, version: f.text()? },
            102 => {
                f.four()?;
                f.text()?;
                f.text()?;
                Request::Auth
            }
            104 => Request::Attach { fid: f.four()?, afid: f.four()?, uname: f.text()?, aname: f.text()? },
            108 => {
                f.two()?;
                Request::Flush
            }
            110 => {
                let (fid, newfid, count) = (f.four()?, f.four()?, usize::from(f.two()?));
                if count > MAX_WALK_NAMES {
                    return Err(Damaged("a walk of more than 16 names"));
                }
                Request::Walk { fid, newfid, names: (0..count).map(|_| f.text()).collect::<Result<_, _>>()? }
            }
            112 => Request::Open { fid: f.four()?, mode: f.one()? },
            114 => Request::Create { fid: f.four()?, name: f.text()?, perm: f.four()?, mode: f.one()? },
            116 => Request::Read { fid: f.four()?, offset: f.eight()?, count: f.four()? },
            118 => {
                let (fid, offset, count) = (f.four()?, f.eight()?, f.four()?);
                Request::Write { fid, offset, data: f.take(count as usize)? }
            }
            120 => Request::Clunk { fid: f.four()? },
            122 => Request::Remove { fid: f.four()? },
            124 => Request::Stat { fid: f.four()? },
            126 => {
                let (fid, length) = (f.four()?, usize::from(f.two()?));
                let mut inner = Fields(f.take(length)?);
                let record = Record::decode(&mut inner)?;
                inner.end()?;
                Request::Wstat { fid, record }
            }
            _ => return Ok(Request::Unknown),
        };
        fields.end()?;
        Ok(request)
    }
}
