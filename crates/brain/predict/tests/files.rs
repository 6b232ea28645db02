//! Real files, in the folders of `TERRACE_DATA`: their types are recognised, and compressed bytes have no type.

use std::fs;

use terrace_codec::{Element, Scratch, encode};
use terrace_predict::analyze::{Analysis, Content, Elements, Format, Metadata, Span};
use terrace_testkit::{Random, real_files};

const BLOCK_BYTES: usize = 1 << 20;

/// Reads the files of some folders; empty without data.
fn files() -> Vec<(String, Vec<u8>)> {
    let Some(root) = real_files("types of real files") else { return Vec::new() };
    let mut files = Vec::new();
    for folder in fs::read_dir(root).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        for path in fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("an entry").path()) {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            files.push((name, fs::read(path).expect("reads")));
        }
    }
    files.sort();
    files
}

fn spans(format: Format, bytes: &[u8]) -> Vec<Span> {
    let (mut metadata, mut base, mut all) = (Metadata::new(format), 0, Vec::new());
    for block in bytes.chunks(BLOCK_BYTES) {
        all.extend(metadata.parse(base, block));
        base += block.len() as u64;
    }
    all
}

#[test]
fn every_format_is_recognised() {
    for (name, bytes) in files() {
        let format = match name.rsplit('.').next().expect("an ending") {
            "nc" | "h5" => Format::Hdf5,
            "parquet" => Format::Parquet,
            "avro" => Format::Avro,
            "orc" => Format::Orc,
            "arrow_file" => Format::Arrow,
            "csv" => Format::Csv,
            "json" => Format::Json,
            "txt" => Format::Text,
            "fits" => Format::Fits,
            "npy" => Format::Npy,
            "png" | "jpg" | "xz" => Format::Compressed,
            _ => Format::Unknown,
        };
        assert_eq!(Format::of(&bytes[..bytes.len().min(4096)]), format, "{name}");
    }
}

/// Compares the declared ranges of each file with the file's own library.
#[test]
fn self_describing_files_declare_their_elements() {
    let little = |element| Content::Numbers(Elements::of(element));
    let big = |element| Content::Numbers(Elements { element, big_endian: true });
    let known = [
        ("A1B_north_america.nc", little(Element::F32), 0.95),
        ("cloud_top_height.nc", Content::Compressed, 0.78),
        ("issue672.nc", Content::Compressed, 0.80),
        ("nemo_grid_T_201501.nc", Content::Compressed, 0.95),
        ("orca2_votemper.nc", little(Element::F64), 0.81),
        ("ostia_monthly.nc", little(Element::F32), 0.98),
        ("e3sm_map_f_case_16p.h5", little(Element::I32), 0.98),
        ("elegant_50k_particles_8var.h5", little(Element::F64), 0.92),
        ("openpmd_femm_3d.h5", little(Element::F64), 0.99),
        ("openpmd_pic_2d_it255.h5", Content::Compressed, 0.88),
        ("rfgun_fields.h5", little(Element::F64), 0.99),
        ("m13_int16.fits", big(Element::I16), 0.97),
        ("wcs_1904-66_AZP.fits", big(Element::F32), 0.91),
        ("camera_wiener_f64.npy", little(Element::F64), 0.99),
        ("userdata1.orc", Content::Compressed, 0.99),
        ("syncInMeta.avro", Content::Compressed, 0.99),
    ];
    let files = files();
    for (name, content, share) in known {
        let Some((_, bytes)) = files.iter().find(|file| file.0 == name) else { continue };
        let spans = spans(Format::of(&bytes[..4096]), bytes);
        let length = |span: &Span| span.end.min(bytes.len() as u64).saturating_sub(span.start);
        let sum: u64 = spans.iter().filter(|span| span.content == content).map(length).sum();
        assert!(sum as f64 >= share * bytes.len() as f64, "{name}: {sum} of {} bytes", bytes.len());
        assert!(sum <= bytes.len() as u64, "{name}: no byte is described twice");
    }
    for name in ["lz4_raw_compressed_larger.parquet", "alltypes_tiny_pages_plain.parquet"] {
        let Some((_, bytes)) = files.iter().find(|file| file.0 == name) else { continue };
        // The footer is at the end, so the window is the whole file.
        let spans = Metadata::new(Format::Parquet).parse(0, bytes);
        assert!(spans.iter().all(|span| span.end <= bytes.len() as u64) && !spans.is_empty(), "{name}: {spans:?}");
        let compressed = spans.iter().all(|span| span.content == Content::Compressed);
        assert_eq!(compressed, name.starts_with("lz4"), "{name}");
    }
}

/// Compressed bytes have no elements if only the bytes are known.
#[test]
fn compressed_bytes_have_no_elements() {
    let mut looked = 0;
    for (name, bytes) in files() {
        let format = Format::of(&bytes[..bytes.len().min(4096)]);
        let mut spans = spans(format, &bytes);
        if format == Format::Compressed {
            // Pictures begin with text.
            spans = vec![Span { start: 64 << 10, end: bytes.len() as u64, content: Content::Compressed }];
        }
        for span in spans.iter().filter(|span| span.content == Content::Compressed) {
            let end = (span.end as usize).min(bytes.len());
            // Pages of a column have headers; a short page consists mostly of its header.
            for block in bytes[span.start as usize..end].chunks_exact(64 << 10) {
                let analysis = Analysis::of(block, None).expect("analyzes");
                let dense = analysis.entropy > 7.8;
                assert!(!dense || analysis.elements.is_none(), "{name}: {analysis:?}");
                assert!(!dense || analysis.distribution.is_none(), "{name}: {analysis:?}");
                assert_eq!(analysis.format, Format::Unknown, "{name}");
                looked += 1;
            }
        }
    }
    eprintln!("{looked} blocks");
}

/// Encodes synthetic data.
#[test]
fn encoded_bytes_have_no_elements() {
    let mut generator = Random::new(1);
    let mut random = || generator.bits() >> 40;
    let words: Vec<u8> = (0..400_000).flat_map(|_| format!("{:x} ", random() % 5000).into_bytes()).collect();
    let floats: Vec<u8> =
        (0..400_000).flat_map(|i| ((f64::from(i) / 900.0).sin() + random() as f64 * 1e-9).to_le_bytes()).collect();
    let (mut out, mut scratch) = (Vec::new(), Scratch::default());
    for raw in [&words, &floats] {
        for name in [
            "zstd-3",
            "zstd-19",
            "lzma-6",
            "brotli-5",
            "deflate-6",
            "bzip2-9",
            "ppmdfit-6",
            "shuffle8+zstd-1",
            "pco-f64",
        ] {
            encode(name.parse().expect("a name"), raw, &mut out, &mut scratch).expect("encodes").expect("shrinks");
            for block in out.chunks_exact(64 << 10) {
                let analysis = Analysis::of(block, None).expect("analyzes");
                let format = matches!(analysis.format, Format::Unknown | Format::Compressed);
                assert!(format && analysis.distribution.is_none(), "{name}: {analysis:?}");
                // Numbers may be visible in bytes that hardly shrank.
                assert!(analysis.entropy < 7.8 || analysis.elements.is_none(), "{name}: {analysis:?}");
            }
        }
    }
}
