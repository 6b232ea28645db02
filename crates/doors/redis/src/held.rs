//! [`Held`]: the value of a key in a pass.

use terrace::{Attributes, Kind, Object};

use crate::clock::Moment;
use crate::datum::{Datum, DatumKind, FLAGS_ATTRIBUTE, TYPE_ATTRIBUTE};
use crate::problem::Problem;

/// The value of a key.
#[derive(Clone, Debug)]
pub struct Held {
    /// Its type.
    pub kind: DatumKind,
    /// The number of bytes of its object, as the store has it.
    pub stored_bytes: u64,
    /// The value, once it was read.
    pub datum: Option<Datum>,
    /// The time at which it expires.
    pub expiry: Option<Moment>,
    /// The number of its last change; none until that has reached the store.
    pub generation: Option<u64>,
    /// The attributes of its object. [`Held::described`] adds the type and the expiry.
    pub attributes: Attributes,
}

impl Held {
    /// A new value.
    pub fn new(datum: Datum, expiry: Option<Moment>) -> Held {
        let (kind, attributes) = (datum.kind(), Attributes::now());
        Held { kind, stored_bytes: 0, datum: Some(datum), expiry, generation: None, attributes }
    }

    /// The length of a string.
    pub fn string_length(&self) -> u64 {
        match &self.datum {
            Some(Datum::String(bytes)) => bytes.len() as u64,
            _ => self.stored_bytes,
        }
    }

    /// The bytes of a string that was read.
    pub fn string(&self) -> Option<&[u8]> {
        if let Some(Datum::String(bytes)) = &self.datum { Some(bytes) } else { None }
    }

    /// The number that clients of memcached keep with it.
    pub fn flags(&self) -> u32 {
        self.attributes.user.get(FLAGS_ATTRIBUTE).and_then(|flags| flags.parse().ok()).unwrap_or(0)
    }

    /// Sets that number.
    pub fn set_flags(&mut self, flags: u32) {
        match flags {
            0 => self.attributes.user.remove(FLAGS_ATTRIBUTE),
            flags => self.attributes.user.insert(FLAGS_ATTRIBUTE.to_owned(), flags.to_string()),
        };
    }

    /// Returns the value of an object without its bytes; none if it has expired, or is no file.
    pub fn of(object: &Object, now: Moment) -> Result<Option<Held>, Problem> {
        let attributes = &object.attributes;
        let expiry = attributes.expiry().map(Moment::from_nanos);
        if attributes.kind != Kind::File || expiry.is_some_and(|expiry| expiry <= now) {
            return Ok(None);
        }
        let kind = match attributes.user.get(TYPE_ATTRIBUTE) {
            None => DatumKind::String,
            Some(name) => DatumKind::named(name).ok_or_else(|| {
                Problem::from(format!("ERR the value is of the type {name:?} of a newer version; use that version"))
            })?,
        };
        let attributes = attributes.clone();
        let generation = Some(object.generation);
        Ok(Some(Held { kind, stored_bytes: object.length, datum: None, expiry, generation, attributes }))
    }

    /// The attributes of the object that is to hold it.
    pub fn described(&self) -> Attributes {
        let mut attributes = Attributes { mtime: Attributes::now().mtime, ..self.attributes.clone() };
        // The bytes have changed.
        attributes.remove_digests();
        match self.kind {
            DatumKind::String => attributes.user.remove(TYPE_ATTRIBUTE),
            kind => attributes.user.insert(TYPE_ATTRIBUTE.to_owned(), kind.name().to_owned()),
        };
        attributes.set_expiry(self.expiry.map(Moment::nanos));
        attributes
    }
}
