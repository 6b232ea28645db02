//! Files whose metadata becomes a declaration of a dataset, and those in which the predictor looks for the types of bytes.

use std::fs;

use terrace_predict::analyze::{Format as FileFormat, Metadata};
use terrace_views::import::{Format, import};

use crate::shared_memory;

/// The formats of the import; a file may claim to be of any.
const IMPORTED_FORMATS: [Format; 5] = [Format::Numpy, Format::Zarr, Format::C, Format::Netcdf, Format::Hdf5];

/// The formats that the predictor reads.
const PREDICTED_FORMATS: [FileFormat; 7] = [
    FileFormat::Hdf5,
    FileFormat::NetCdf,
    FileFormat::Parquet,
    FileFormat::Npy,
    FileFormat::Fits,
    FileFormat::Avro,
    FileFormat::Orc,
];

const OLD_HDF5_FILE: &[u8] = include_bytes!("../../layouts/views/tests/hdf5/old.h5");
const NEW_HDF5_FILE: &[u8] = include_bytes!("../../layouts/views/tests/hdf5/new.h5");

/// The bytes of a window of the predictor.
const WINDOW_BYTES: usize = 4096;

fn numpy_file() -> Vec<u8> {
    let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (4, 32), }\n";
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\0".as_slice(), &length, header.as_bytes(), &[7; 4 * 32 * 8]].concat()
}

/// A classic file with the dimension `x` and the variable `t` of doubles.
fn netcdf_file() -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let mut file = b"CDF\x01".to_vec();
    // No records; one dimension, `x`, of 4; no attributes; one variable, `t`, of dimension 0, without attributes.
    file.extend(words(&[0, 0x0a, 1, 1]));
    file.extend_from_slice(b"x\0\0\0");
    file.extend(words(&[4, 0, 0, 0x0b, 1, 1]));
    file.extend_from_slice(b"t\0\0\0");
    let begin = file.len() as u32 + 7 * 4;
    file.extend(words(&[1, 0, 0, 0, 6, 32, begin]));
    file.extend([3; 32]);
    file
}

pub fn import_samples() -> Vec<Vec<u8>> {
    let zarr = r#"{"zarr_format": 2, "shape": [100, 70], "chunks": [10, 20], "dtype": ">i2", "order": "F", "compressor": null}"#;
    let header = "struct a { char c; double d; } __attribute__((__packed__));";
    let dtype = "[('id', '<i8'), ('position', '<f4', (3,)), ('', '|V4'), ('ok', '?')]";
    let texts = [zarr, header, dtype].map(|text| text.as_bytes().to_vec());
    let files = [OLD_HDF5_FILE.to_vec(), NEW_HDF5_FILE.to_vec(), numpy_file(), netcdf_file()];
    texts.into_iter().chain(files).collect()
}

/// Whether the bytes are a file of one of the formats.
pub fn parse_import(input: &[u8]) -> bool {
    let Ok(folder) = tempfile::tempdir_in(shared_memory()) else { return false };
    let path = folder.path().join("a");
    fs::write(&path, input).is_ok()
        && IMPORTED_FORMATS.into_iter().filter(|format| import(&path, Some(*format), 10).is_ok()).count() > 0
}

pub fn metadata_samples() -> Vec<Vec<u8>> {
    vec![OLD_HDF5_FILE.to_vec(), numpy_file(), netcdf_file()]
}

/// Whether one of the formats describes a part of the bytes.
pub fn parse_metadata(input: &[u8]) -> bool {
    let mut describes = false;
    for format in PREDICTED_FORMATS {
        for window in [WINDOW_BYTES, input.len().max(1)] {
            let (mut metadata, mut base) = (Metadata::new(format), 0);
            for block in input.chunks(window) {
                let spans = metadata.parse(base, block);
                assert!(spans.is_sorted_by_key(|span| span.start) && spans.iter().all(|span| span.start < span.end));
                base += block.len() as u64;
                describes |= !spans.is_empty();
            }
        }
    }
    describes
}
