//! Long copies that the user may interrupt. A worker thread, which does not use Python, copies to or from the store.
//! The caller's thread uses the buffer or file, and checks for signals while it waits. The two exchange pieces. If the
//! caller gives up, the worker fails, and discards an incomplete write.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engine::sparse::{ReadHoles, WriteHoles};
use engine::{Object, PutOptions, Receipt, Store};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::failure::raised;
use crate::waiting::{INTERRUPT_CHECK_INTERVAL, waited};

/// The caller's thread makes shorter copies by itself.
pub const MIN_PIPED_BYTES: u64 = 4 << 20;
const PIECE_BYTES: usize = 1 << 20;
/// The number of pieces that may wait between the two threads.
const MAX_WAITING_PIECES: usize = 2;
/// The interval between attempts to hand over a piece.
const RETRY_INTERVAL: Duration = Duration::from_micros(200);

enum Piece {
    /// The object that is read; it precedes its bytes.
    Object(Box<Object>),
    Bytes(Vec<u8>),
    Hole(u64),
    /// The end of the bytes.
    End,
}

/// Reports the progress of a copy to Python. An exception of the callback ends the copy.
pub struct Progress<'py> {
    tell: Option<Bound<'py, PyAny>>,
    done: u64,
    total: u64,
}

impl<'py> Progress<'py> {
    /// Starts reporting on a copy of `total` bytes.
    pub fn new(tell: Option<Bound<'py, PyAny>>, total: u64) -> Progress<'py> {
        Progress { tell, done: 0, total }
    }

    fn add(&mut self, bytes: u64) -> PyResult<()> {
        self.done += bytes;
        self.tell.as_ref().map_or(Ok(()), |tell| tell.call1((self.done, self.total)).map(drop))
    }
}

/// Writes an object from a source that only this thread may use.
pub fn put(
    py: Python<'_>,
    store: &Store,
    key: &[u8],
    mut source: impl ReadHoles + Send,
    mut progress: Progress<'_>,
    options: &PutOptions,
) -> PyResult<Receipt> {
    let (sender, receiver) = sync_channel(MAX_WAITING_PIECES);
    let (writer, name) = (store.clone(), key.to_vec());
    let options = options.clone();
    let worker = begin(move || writer.put_sparse(&name, Pieces::new(receiver), &options))?;
    let fed = feed(py, &sender, &mut source, &mut progress);
    drop(sender);
    let fed = fed?;
    let written = end(py, worker)?;
    match fed {
        // If the worker ended first, it returns the reason.
        Fed::All | Fed::Refused => written.map_err(raised),
        Fed::Failed(error) => Err(error.into()),
    }
}

/// The result of handing over a source.
enum Fed {
    All,
    Refused,
    /// The source could not be read.
    Failed(io::Error),
}

fn feed(
    py: Python<'_>,
    sender: &SyncSender<Piece>,
    source: &mut (impl ReadHoles + Send),
    progress: &mut Progress<'_>,
) -> PyResult<Fed> {
    loop {
        let next = py.detach(|| {
            let hole = source.pass_hole()?;
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            source.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
            Ok((hole, piece))
        });
        let (hole, piece) = match next {
            Ok(next) => next,
            Err(error) => return Ok(Fed::Failed(error)),
        };
        let length = hole + piece.len() as u64;
        if hole > 0 && !send(py, sender, Piece::Hole(hole))? {
            return Ok(Fed::Refused);
        }
        let last = piece.is_empty();
        if !send(py, sender, if last { Piece::End } else { Piece::Bytes(piece) })? {
            return Ok(Fed::Refused);
        }
        if length > 0 {
            progress.add(length)?;
        }
        if last {
            return Ok(Fed::All);
        }
    }
}

/// Hands over a piece. Returns false if the worker has ended.
fn send(py: Python<'_>, sender: &SyncSender<Piece>, mut piece: Piece) -> PyResult<bool> {
    loop {
        py.check_signals()?;
        let tried = py.detach(|| {
            let mut tries = INTERRUPT_CHECK_INTERVAL.as_micros() / RETRY_INTERVAL.as_micros();
            loop {
                match sender.try_send(piece) {
                    Err(TrySendError::Full(back)) if tries > 0 => {
                        (piece, tries) = (back, tries - 1);
                        thread::sleep(RETRY_INTERVAL);
                    }
                    tried => return tried,
                }
            }
        });
        match tried {
            Ok(()) => return Ok(true),
            Err(TrySendError::Disconnected(_)) => return Ok(false),
            Err(TrySendError::Full(back)) => piece = back,
        }
    }
}

/// Reads an object, or a range of it, into the sink that `make` creates in this thread.
pub fn get<W: WriteHoles + Send>(
    py: Python<'_>,
    store: &Store,
    key: &[u8],
    range: (u64, Option<u64>),
    make: impl FnOnce(&Object) -> PyResult<W>,
    tell: Option<Bound<'_, PyAny>>,
) -> PyResult<W> {
    let (sender, mut receiver) = sync_channel(MAX_WAITING_PIECES);
    let (reader, name) = (store.clone(), key.to_vec());
    let worker = begin(move || {
        reader.get_by(&name, range.0, range.1, |object| {
            // If the receiver has given up, sending the first bytes will fail.
            let _ = sender.send(Piece::Object(Box::new(object.clone())));
            Sender(sender)
        })
    })?;
    let mut made: Option<(W, Progress<'_>)> = None;
    let mut make = Some((make, tell));
    loop {
        let (back, got) = py.detach(move || {
            let got = receiver.recv_timeout(INTERRUPT_CHECK_INTERVAL);
            (receiver, got)
        });
        receiver = back;
        let piece = match got {
            Ok(piece) => piece,
            Err(RecvTimeoutError::Timeout) => {
                py.check_signals()?;
                continue;
            }
            // The worker has ended.
            Err(RecvTimeoutError::Disconnected) => break,
        };
        py.check_signals()?;
        if let (Piece::Object(object), Some((make, tell))) = (&piece, make.take_if(|_| made.is_none())) {
            let length = range.1.map_or(object.length, |end| end.min(object.length)).saturating_sub(range.0);
            made = Some((make(object)?, Progress::new(tell, length)));
        }
        let Some((sink, progress)) = &mut made else { continue };
        let length = py.detach(|| match piece {
            Piece::Bytes(bytes) => sink.write_all(&bytes).map(|()| bytes.len() as u64),
            Piece::Hole(length) => sink.skip_hole(length).map(|()| length),
            Piece::Object(_) | Piece::End => Ok(0),
        })?;
        if length > 0 {
            progress.add(length)?;
        }
    }
    end(py, worker)?.map_err(raised)?;
    made.map(|(sink, _)| sink).ok_or_else(|| PyRuntimeError::new_err("nothing was read"))
}

fn begin<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    thread::Builder::new().name("terrace-copy".into()).spawn(run)
}

/// Waits for the worker.
fn end<T: Send + 'static>(py: Python<'_>, worker: JoinHandle<T>) -> PyResult<T> {
    waited(py, move || worker.join())?
        .map_err(|_| PyRuntimeError::new_err("the thread that did this has ended before its time"))
}

/// The worker's source of a put.
struct Pieces {
    from: Receiver<Piece>,
    waiting: VecDeque<u8>,
    hole: u64,
    ended: bool,
}

impl Pieces {
    fn new(from: Receiver<Piece>) -> Pieces {
        Pieces { from, waiting: VecDeque::new(), hole: 0, ended: false }
    }

    fn next(&mut self) -> io::Result<()> {
        match self.from.recv() {
            Ok(Piece::Bytes(bytes)) => self.waiting = bytes.into(),
            Ok(Piece::Hole(length)) => self.hole += length,
            Ok(Piece::Object(_)) => {}
            Ok(Piece::End) => self.ended = true,
            // The caller gave up, which must not look like the end of the bytes.
            Err(_) => return Err(io::Error::other("the call was interrupted")),
        }
        Ok(())
    }
}

impl Read for Pieces {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.waiting.is_empty() && !self.ended && self.hole == 0 {
            self.next()?;
        }
        match self.hole {
            0 => self.waiting.read(out),
            _ => Ok(0),
        }
    }
}

impl ReadHoles for Pieces {
    fn pass_hole(&mut self) -> io::Result<u64> {
        while self.waiting.is_empty() && !self.ended {
            self.next()?;
        }
        Ok(std::mem::take(&mut self.hole))
    }
}

/// The worker's sink of a get.
struct Sender(SyncSender<Piece>);

impl Sender {
    fn send(&self, piece: Piece) -> io::Result<()> {
        self.0.send(piece).map_err(|_| io::Error::other("the call was interrupted"))
    }
}

impl Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(Piece::Bytes(bytes.to_vec())).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl WriteHoles for Sender {
    fn skip_hole(&mut self, length: u64) -> io::Result<()> {
        self.send(Piece::Hole(length))
    }
}
