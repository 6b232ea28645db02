//! Measures encodings on blocks of sample files.

use std::path::Path;

use anyhow::{Result, bail};
use terrace::Encoding;
use terrace_cost::Expected;
use terrace_predict::Predictor;

use crate::sample::sample_blocks;

/// Returns the expected cost of every encoding on a block of each file. Paths are relative to the description.
pub fn costs(files: &[String], beside: &Path) -> Result<Vec<Vec<(Encoding, Expected)>>> {
    let (mut predictor, mut all) = (Predictor::default(), Vec::new());
    for path in files.iter().map(|file| beside.join(file)) {
        let found = sample_blocks(&path)?;
        if found.is_empty() {
            bail!(
                "[data] files: {} holds no bytes to sample; name files with some, or directories of such",
                path.display()
            );
        }
        for (_, block) in found {
            let choices = predictor.survey(&block, None, true)?.into_iter();
            let expected = choices.map(|choice| (choice.encoding, choice.expected));
            all.push(expected.filter(|(encoding, _)| *encoding != Encoding::NONE).collect());
        }
    }
    Ok(all)
}
