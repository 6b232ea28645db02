//! A service that OpenDAL supports as an origin: a bucket, a WebDAV or SFTP server, or a web server that serves ranges.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::TryStreamExt as _;
use opendal::{Buffer, EntryMode, Error, ErrorKind, Metadata, Operator};

use super::{Origin, OriginEntry, OriginKind, OriginReadError, outwait_step};
use crate::service::{Client, Service, run};

/// A read is divided into requests of this length.
const REQUEST_BYTES: usize = 4 << 20;
/// The most requests of one read at a time.
const REQUESTS_AT_ONCE: usize = 4;
/// The step of times that a service tells in whole seconds.
const CLOCK_STEP: Duration = Duration::from_millis(1020);
/// Begins an identity that is the service's ETag.
const ETAG_LETTER: &str = "e";
/// Begins an identity of the time of modification and the length.
const TIME_LETTER: &str = "t";
/// Begins an identity of the length alone, because the service tells nothing else. The bytes of such a file are not read.
const LENGTH_LETTER: &str = "n";

/// A folder or prefix of a service.
pub struct ServiceOrigin {
    client: Client,
    /// Whether the service is known to compare ETags at each read. Others may ignore the condition.
    compares_etags: bool,
    /// Whether answers with bytes do not tell their ETag, as far as is known. Relaxed: it only saves requests.
    tells_no_etags: Arc<AtomicBool>,
}

impl ServiceOrigin {
    /// Makes a client of a service, without contacting it yet.
    ///
    /// # Errors
    /// If the service is unknown, or its options are invalid.
    pub fn new(service: &Service) -> io::Result<ServiceOrigin> {
        let compares_etags = matches!(service.name.as_str(), "s3" | "gcs" | "azblob");
        Ok(ServiceOrigin { client: service.connect()?, compares_etags, tells_no_etags: Arc::default() })
    }

    fn operator(&self) -> Operator {
        self.client.clone()
    }
}

/// Returns a path as services take it. None if it is not UTF-8, so that the service cannot have it.
fn text_of(path: &[u8]) -> Option<&str> {
    std::str::from_utf8(path).ok()
}

impl Origin for ServiceOrigin {
    fn stat(&self, path: &[u8]) -> io::Result<Option<OriginEntry>> {
        let Some(path) = text_of(path).map(str::to_owned) else { return Ok(None) };
        let operator = self.operator();
        run(async move {
            let name = || path.rsplit('/').next().unwrap_or_default().as_bytes().to_vec();
            match operator.stat(&path).await {
                Ok(found) if found.is_dir() => Ok(Some(OriginEntry::folder(name()))),
                Ok(found) => Ok(Some(OriginEntry::of_blob(name(), &found))),
                Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
                Err(_) if !operator.info().capability().list => Ok(None),
                // In a bucket, a folder exists as long as anything is in it.
                Err(_) => Ok(is_folder(&operator, &path).await?.then(|| OriginEntry::folder(name()))),
            }
        })
    }

    fn list(&self, folder: &[u8], found: &mut dyn FnMut(OriginEntry)) -> io::Result<()> {
        let folder = text_of(folder).ok_or(io::ErrorKind::NotFound)?;
        let folder = if folder.is_empty() { "/".to_owned() } else { format!("{folder}/") };
        let (operator, own) = (self.operator(), folder.clone());
        let listed = run(async move { list_folder(&operator, &own).await })?;
        if listed.is_empty()
            && folder != "/"
            && self.stat(folder.trim_end_matches('/').as_bytes())?.is_none_or(|entry| entry.kind != OriginKind::Folder)
        {
            return Err(io::ErrorKind::NotFound.into());
        }
        listed.into_iter().for_each(found);
        Ok(())
    }

    fn read(&self, path: &[u8], identity: &str, offset: u64, out: &mut [u8]) -> Result<(), OriginReadError> {
        if identity.starts_with(LENGTH_LETTER) {
            let reason = "the server tells neither an ETag nor the time of the last change of this file, so that a reader could get parts of \
                          two versions; copy the file, and put that into the store";
            return Err(OriginReadError::Io(io::Error::new(io::ErrorKind::Unsupported, reason)));
        }
        let path = text_of(path).ok_or(OriginReadError::Changed)?.to_owned();
        let (operator, pinned) = (self.operator(), identity.to_owned());
        let (compares_etags, length) = (self.compares_etags, out.len());
        let tells_no_etags = self.tells_no_etags.clone();
        let read = run(async move {
            let range = offset..offset + length as u64;
            // A weak ETag never matches in a condition.
            let etag = pinned.strip_prefix(ETAG_LETTER).filter(|etag| !etag.starts_with("W/"));
            let is_compared = compares_etags && etag.is_some();
            // Whether nobody has to ask for the version before the bytes.
            let mut is_known = is_compared || etag.is_some() && !tells_no_etags.load(Ordering::Relaxed);
            let fetched = loop {
                if !is_known {
                    if !has_identity(&operator, &path, &pinned).await? {
                        return Ok(None);
                    }
                    tells_no_etags.fetch_or(etag.is_some(), Ordering::Relaxed);
                }
                match fetch(&operator, &path, etag, range.clone()).await {
                    // These bytes may be of another version.
                    Ok(Some(found)) if is_known && !is_compared && found.identity.as_ref() != Some(&pinned) => {
                        is_known = false;
                    }
                    fetched => break fetched,
                }
            };
            // A server may begin with the bytes of one version and go on with those of another one.
            if !is_compared && !has_identity(&operator, &path, &pinned).await? {
                return Ok(None);
            }
            let Some(Fetched { bytes, .. }) = fetched? else { return Ok(None) };
            if bytes.len() != length {
                let reason = "the server answers a request for a range with other bytes; it has to support ranges";
                return Err(Error::new(ErrorKind::Unexpected, reason));
            }
            Ok(Some(bytes))
        });
        match read? {
            Some(bytes) => {
                let mut at = 0;
                for part in bytes {
                    out[at..at + part.len()].copy_from_slice(&part);
                    at += part.len();
                }
                Ok(())
            }
            None => Err(OriginReadError::Changed),
        }
    }

    fn can_list(&self) -> bool {
        self.client.info().capability().list
    }
}

/// Bytes of a blob.
struct Fetched {
    bytes: Buffer,
    /// The identity of the blob, as far as the answer with its bytes tells.
    identity: Option<String>,
}

/// Fetches a range, of the version with an ETag if the service knows such conditions. None if there is no such blob any more.
async fn fetch(
    operator: &Operator,
    path: &str,
    etag: Option<&str>,
    range: Range<u64>,
) -> opendal::Result<Option<Fetched>> {
    let mut reader = operator.reader_with(path).chunk(REQUEST_BYTES).concurrent(REQUESTS_AT_ONCE);
    if let Some(etag) = etag.filter(|_| operator.info().capability().read_with_if_match) {
        reader = reader.if_match(&format!("\"{etag}\""));
    }
    let reader = reader.await?;
    match reader.read(range).await {
        Err(e) if matches!(e.kind(), ErrorKind::ConditionNotMatch | ErrorKind::NotFound) => Ok(None),
        bytes => Ok(Some(Fetched { bytes: bytes?, identity: reader.metadata().map(identity_of) })),
    }
}

/// Lists the entries of a folder, whose path ends with `/`.
async fn list_folder(operator: &Operator, folder: &str) -> opendal::Result<Vec<OriginEntry>> {
    let mut listed = Vec::new();
    let mut entries = operator.lister_with(folder).await?;
    while let Some(entry) = entries.try_next().await? {
        let (path, mut metadata) = entry.into_parts();
        // The folder itself is listed, too.
        let rest =
            if folder == "/" { Some(path.as_str()).filter(|path| *path != "/") } else { path.strip_prefix(folder) };
        let Some(rest) = rest.filter(|rest| !rest.is_empty()) else { continue };
        let name = rest.strip_suffix('/').unwrap_or(rest).as_bytes().to_vec();
        let is_told = metadata.etag().is_some() || metadata.last_modified().is_some();
        if metadata.mode() == EntryMode::Unknown || metadata.is_file() && !is_told {
            metadata = match operator.stat(&path).await {
                // It was removed meanwhile.
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                now => now?,
            };
        }
        listed.push(match metadata.is_dir() {
            true => OriginEntry::folder(name),
            false => OriginEntry::of_blob(name, &metadata),
        });
    }
    Ok(listed)
}

/// Returns whether a blob still has an identity. A later change gives it another one.
async fn has_identity(operator: &Operator, path: &str, identity: &str) -> opendal::Result<bool> {
    for is_last in [false, true] {
        let found = match operator.stat(path).await {
            Ok(found) => found,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(e),
        };
        if identity_of(&found) != identity {
            return Ok(false);
        }
        let modified = modified_at(&found);
        if is_last || !identity.starts_with(TIME_LETTER) {
            break;
        }
        let waited = tokio::task::spawn_blocking(move || outwait_step(modified, CLOCK_STEP)).await;
        // It only sleeps. Without the pause, a second change in the same second is not seen.
        drop(waited);
    }
    Ok(true)
}

async fn is_folder(operator: &Operator, path: &str) -> opendal::Result<bool> {
    if path.is_empty() {
        return Ok(true);
    }
    let mut entries = match operator.lister_with(&format!("{path}/")).limit(1).await {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
        entries => entries?,
    };
    match entries.try_next().await {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        entry => Ok(entry?.is_some()),
    }
}

impl OriginEntry {
    fn folder(name: Vec<u8>) -> OriginEntry {
        OriginEntry { name, kind: OriginKind::Folder, length: 0, modified: 0, mode: None, identity: String::new() }
    }

    fn of_blob(name: Vec<u8>, found: &Metadata) -> OriginEntry {
        let (length, modified) = (found.content_length(), modified_at(found));
        OriginEntry { name, kind: OriginKind::File, length, modified, mode: None, identity: identity_of(found) }
    }
}

fn modified_at(found: &Metadata) -> i64 {
    let time = found.last_modified().map(std::time::SystemTime::from);
    let since = time.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

fn identity_of(found: &Metadata) -> String {
    match found.etag().filter(|etag| !etag.is_empty()) {
        // Listings of some services leave the quotes out.
        Some(etag) => {
            format!("{ETAG_LETTER}{}", etag.strip_prefix('"').and_then(|etag| etag.strip_suffix('"')).unwrap_or(etag))
        }
        None if found.last_modified().is_none() => format!("{LENGTH_LETTER}{:x}", found.content_length()),
        None => format!("{TIME_LETTER}{:x}-{:x}", modified_at(found), found.content_length()),
    }
}
