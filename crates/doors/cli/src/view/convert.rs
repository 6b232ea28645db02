//! Converts files between layouts.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::Convert;
use crate::dataset;
use crate::interrupt::TemporaryFile;
use crate::output::{Show, size};

/// Converts a file from one view's layout to another's.
pub fn convert(wanted: &Convert, show: Show) -> Result<bool> {
    let declared = dataset::read_declaration(&wanted.declaration, show)?;
    let sizes = dataset::sizes(&declared.model, &wanted.size)?;
    let source = File::open(&wanted.source).with_context(|| format!("reading {}", wanted.source.display()))?;
    let output = &wanted.output;
    let context = || format!("making {}", output.display());
    ensure!(!output.is_dir(), "{} is a directory; name a file", output.display());
    let (beside, file) = TemporaryFile::make(output, |path| File::create(path)).with_context(context)?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let read = |offset: u64, into: &mut [u8]| {
        source.read_exact_at(into, offset).map_err(|error| {
            let what = format!("reading bytes {offset}.. of {}: {error}", wanted.source.display());
            std::io::Error::new(error.kind(), what)
        })
    };
    let bytes =
        terrace_datasets::convert(&declared, &sizes, &wanted.from, &wanted.to, read, |bytes| out.write_all(bytes))?;
    out.flush().with_context(context)?;
    beside.into_place(output).with_context(context)?;
    let words = format!("made {} of {}: {}", output.display(), wanted.source.display(), size(bytes));
    show.result(&json!({"bytes": bytes}), &words)?;
    Ok(true)
}
