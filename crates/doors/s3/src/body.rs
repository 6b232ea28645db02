//! The body of a request as a source of bytes for the engine: it arrives without a thread, and is read by one that may wait.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures::StreamExt;
use s3s::dto::StreamingBlob;
use s3s::{S3Error, S3ErrorCode, S3Result, StdError, s3_error};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::refusal::blocking;

/// This much of a body is awaited before a thread is taken. So a small object occupies one only while it is stored.
const READY_BYTES: usize = 256 << 10;
/// Chunks that wait for the thread. A chunk has at most as many bytes as the connection's buffer.
const MAX_QUEUED_CHUNKS: usize = 8;
/// A client that sends nothing for longer has its request refused.
const MAX_SILENCE: Duration = Duration::from_secs(60);

/// A piece of a body, for the thread that reads it.
enum Piece {
    Bytes(Bytes),
    End,
    Refused(S3Error),
}

/// The body of a request. Reading waits for the client, and fails if the body is not complete and right.
pub struct BodyReader {
    ready: VecDeque<Bytes>,
    /// None if all bytes are ready.
    coming: Option<mpsc::Receiver<Piece>>,
    refusal: Option<S3Error>,
}

impl BodyReader {
    /// Why reading failed, if the body was the reason.
    pub fn take_refusal(&mut self) -> Option<S3Error> {
        self.refusal.take()
    }
}

impl Read for BodyReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(chunk) = self.ready.front_mut() {
                let length = chunk.len().min(out.len());
                chunk.split_to(length).copy_to_slice(&mut out[..length]);
                if chunk.is_empty() {
                    self.ready.pop_front();
                }
                if length > 0 || out.is_empty() {
                    return Ok(length);
                }
                continue;
            }
            let Some(coming) = &mut self.coming else { return Ok(0) };
            match coming.blocking_recv() {
                Some(Piece::Bytes(bytes)) => self.ready.push_back(bytes),
                Some(Piece::End) => self.coming = None,
                Some(Piece::Refused(refusal)) => {
                    self.refusal = Some(refusal);
                    return Err(io::Error::other("the request's body is refused"));
                }
                // The connection has ended, and with it the request.
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
    }
}

/// Lets `store` read the body on a thread, while it arrives.
pub async fn store_body<T: Send + 'static>(
    body: Option<StreamingBlob>,
    store: impl FnOnce(BodyReader) -> S3Result<T> + Send + 'static,
) -> S3Result<T> {
    let Some(mut body) = body else {
        return blocking(|| store(BodyReader { ready: VecDeque::new(), coming: None, refusal: None })).await;
    };
    let (mut ready, mut length) = (VecDeque::new(), 0);
    while length < READY_BYTES {
        match next(&mut body).await? {
            Some(bytes) => {
                length += bytes.len();
                ready.push_back(bytes);
            }
            None => return blocking(|| store(BodyReader { ready, coming: None, refusal: None })).await,
        }
    }
    let (sender, coming) = mpsc::channel(MAX_QUEUED_CHUNKS);
    let stored = tokio::spawn(blocking(|| store(BodyReader { ready, coming: Some(coming), refusal: None })));
    loop {
        let (piece, is_last) = match next(&mut body).await {
            Ok(Some(bytes)) => (Piece::Bytes(bytes), false),
            Ok(None) => (Piece::End, true),
            Err(refusal) => (Piece::Refused(refusal), true),
        };
        // If the thread takes no more, it has an answer already.
        if sender.send(piece).await.is_err() || is_last {
            break;
        }
    }
    stored.await.unwrap_or_else(|panicked| Err(S3Error::internal_error(panicked)))
}

/// The next bytes of a body. None at its end.
async fn next(body: &mut StreamingBlob) -> S3Result<Option<Bytes>> {
    match timeout(MAX_SILENCE, body.next()).await {
        Ok(Some(Ok(bytes))) => Ok(Some(bytes)),
        Ok(None) => Ok(None),
        Ok(Some(Err(error))) => Err(wrong_body(&error)),
        Err(_) => Err(s3_error!(RequestTimeout, "no byte of the body has come for a minute")),
    }
}

/// The error for a body that does not come to its end, or is not as its signature says. `s3s` keeps the types of these errors to itself,
/// so their text has to tell them apart.
fn wrong_body(error: &StdError) -> S3Error {
    let text = error.to_string();
    if text.contains("Sha256Mismatch") {
        let code = S3ErrorCode::Custom("XAmzContentSHA256Mismatch".into());
        let mut wrong = S3Error::with_message(code, "the body is not the one whose SHA-256 the request has");
        wrong.set_status_code(hyper::StatusCode::BAD_REQUEST);
        return wrong;
    }
    if text.contains("SignatureMismatch") {
        return s3_error!(SignatureDoesNotMatch, "a chunk of the body does not have the signature that it comes with");
    }
    s3_error!(IncompleteBody, "the body ended early, or is not chunked as the request says: {}", text)
}
