//! What encodings do to files: probed on blocks out of them.

use std::path::Path;

use anyhow::{Result, bail};
use terrace::Encoding;
use terrace_plan::cost::Expected;
use terrace_predict::Predictor;

use crate::profile::blocks;

/// For a block of each file what every encoding is expected to do. Paths are relative to the description.
pub fn costs(files: &[String], beside: &Path) -> Result<Vec<Vec<(Encoding, Expected)>>> {
    let (mut predictor, mut all) = (Predictor::default(), Vec::new());
    for path in files.iter().map(|file| beside.join(file)) {
        let found = blocks(&path)?;
        if found.is_empty() {
            bail!(
                "[data] files: {} holds no bytes to sample; name files with some, or directories of such",
                path.display()
            );
        }
        for (_, block) in found {
            let expected = predictor.survey(&block, None, true)?.into_iter().map(|choice| {
                let of = choice.expected;
                let speeds = (1.0 / of.encode, 1.0 / of.decode);
                (choice.encoding, Expected { compress: speeds.0, decompress: speeds.1, ratio: of.ratio() })
            });
            all.push(expected.filter(|(encoding, _)| *encoding != Encoding::NONE).collect());
        }
    }
    Ok(all)
}
