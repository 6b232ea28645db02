//! Attributes that the catalog itself reads: digests of an object's bytes, and its expiry time.

use crate::{Attributes, Object};

/// The prefix of attributes that hold digests of the object's bytes. The catalog removes them when the bytes change.
pub const DIGEST_PREFIX: &str = "terrace.digest.";
/// The attribute with the time at which the object expires, in decimal nanoseconds since 1970.
pub const EXPIRY_ATTRIBUTE: &str = "terrace.expires";
/// The attribute of a file or folder of an origin: the origin's number, and behind a space the identity of the bytes there. Bytes in holes of
/// such a file are at the origin.
pub const ORIGIN_ATTRIBUTE: &str = "terrace.origin";
/// The name of the digest that serves as the ETag, as text without quotes.
pub const ETAG_DIGEST: &str = "etag";

impl Attributes {
    /// Returns the digest with this name that was given with the bytes, if any.
    pub fn digest(&self, name: &str) -> Option<&str> {
        self.user.get(&digest_attribute(name)).map(String::as_str)
    }

    /// Sets a digest. The catalog accepts one only together with new bytes: in a `put`, not when attributes are set.
    pub fn set_digest(&mut self, name: &str, value: &str) {
        self.user.insert(digest_attribute(name), value.to_owned());
    }

    /// Removes all digests, because the bytes have changed.
    pub fn remove_digests(&mut self) {
        self.user.retain(|name, _| !name.starts_with(DIGEST_PREFIX));
    }

    /// Replaces the digests by those of `other`, whose bytes the object has.
    pub fn take_digests(&mut self, other: &Attributes) {
        self.remove_digests();
        let digests = other.user.iter().filter(|(name, _)| name.starts_with(DIGEST_PREFIX));
        self.user.extend(digests.map(|(name, value)| (name.clone(), value.clone())));
    }

    /// Returns the time at which the object expires, in nanoseconds since 1970, or `None` if it never does.
    pub fn expiry(&self) -> Option<u64> {
        self.user.get(EXPIRY_ATTRIBUTE)?.parse().ok()
    }

    /// Sets the time at which the object expires, in nanoseconds since 1970. `None` means never.
    pub fn set_expiry(&mut self, time: Option<u64>) {
        match time {
            Some(time) => self.user.insert(EXPIRY_ATTRIBUTE.to_owned(), time.to_string()),
            None => self.user.remove(EXPIRY_ATTRIBUTE),
        };
    }

    /// Returns whether the object has expired at `now`, in nanoseconds since 1970.
    pub fn is_expired(&self, now: u64) -> bool {
        self.expiry().is_some_and(|time| time <= now)
    }
}

impl Object {
    /// Returns the object's ETag, without quotes: the one that was given with its bytes, or an opaque one that changes with
    /// each change of the object. The opaque one has a dash, so that S3 clients do not mistake it for an MD5, and at most 16
    /// digits before the dash, so that it never equals the ETag of an upload in parts.
    ///
    /// ```
    /// use terrace_format::{Attributes, ETAG_DIGEST, Object};
    ///
    /// let mut object =
    ///     Object { id: 31, generation: 10, length: 0, want: 1, attributes: Attributes::default(), extents_in_record: None };
    /// assert_eq!(object.etag(), "1f-a");
    /// object.attributes.set_digest(ETAG_DIGEST, "d41d8cd98f00b204e9800998ecf8427e");
    /// assert_eq!(object.etag(), "d41d8cd98f00b204e9800998ecf8427e");
    /// ```
    pub fn etag(&self) -> String {
        let opaque = || format!("{:x}-{:x}", self.id, self.generation);
        self.attributes.digest(ETAG_DIGEST).map_or_else(opaque, str::to_owned)
    }
}

fn digest_attribute(name: &str) -> String {
    format!("{DIGEST_PREFIX}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_none_never_comes() {
        let mut attributes = Attributes::default();
        assert!(!attributes.is_expired(u64::MAX));
        attributes.set_expiry(Some(50));
        assert_eq!([49, 50, 51].map(|now| attributes.is_expired(now)), [false, true, true]);
        for text in ["", "soon", "-1", "99999999999999999999"] {
            attributes.user.insert(EXPIRY_ATTRIBUTE.to_owned(), text.to_owned());
            assert!(!attributes.is_expired(u64::MAX), "{text:?}");
        }
        attributes.set_expiry(None);
        assert_eq!(attributes, Attributes::default());
    }

    #[test]
    fn digests_go_and_come_without_other_attributes() {
        let mut before = Attributes::default();
        before.user.insert("unit".to_owned(), "K".to_owned());
        before.set_expiry(Some(7));
        let without = before.clone();
        before.set_digest(ETAG_DIGEST, "1");
        before.set_digest("crc32c", "2");
        let mut after = without.clone();
        after.set_digest("sha256", "3");
        after.take_digests(&before);
        assert_eq!(after, before);
        after.remove_digests();
        assert_eq!(after, without);
    }
}
