//! Claim C9 (HCompress): the paper stores a 16-byte header per piece; Terrace stores frames and a log, from which
//! everything can be rebuilt.

use anyhow::Result;
use terrace::frame::header_len;
use terrace::{Encoding, PutOptions, Store};

use crate::place::{Place, random_bytes, smooth_floats};
use crate::row::{Better, Row};

pub fn run() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (length, name) in [(4u32 << 10, "4 KiB"), (1 << 20, "1 MiB")] {
        let header = header_len(length, Encoding::NONE) as f64;
        let share = header / f64::from(length) * 100.0;
        rows.push(
            Row::new("C9", format!("frame header of a {name} piece"), header, "bytes")
                .beside(16.0, Better::Lower)
                .details(format!(
                    "{share:.2} % of the piece; holds a checksum per sub-block, which the paper's does not"
                )),
        );
    }
    let place = Place::new()?;
    let store = place.store("store", 2)?;
    for i in 0..500usize {
        let bytes = if i % 2 == 0 { smooth_floats(i * 800, 7) } else { random_bytes(i * 100, i as u64) };
        store.put_bytes(format!("a/{i}").as_bytes(), &bytes, &PutOptions::default())?;
        if i % 5 == 4 {
            store.remove(format!("a/{}", i - 2).as_bytes())?;
            store.rename(format!("a/{i}").as_bytes(), format!("b/{i}").as_bytes())?;
        }
    }
    store.sync()?;
    let before = store.catalog().dump()?;
    let dir = store.dir().to_owned();
    drop(store);
    std::fs::remove_dir_all(dir.join("log"))?;
    let after = Store::rebuild(&dir)?.catalog().dump()?;
    let same = before.iter().filter(|record| after.contains(record)).count();
    rows.push(
        Row::new(
            "C9",
            "catalog records equal after a rebuild from the tiers alone",
            same as f64 / before.len() as f64 * 100.0,
            "%",
        )
        .goal(100.0, Better::Higher)
        .details(format!(
            "{} records of 500 puts, 100 removes, 100 renames; catalog and the store's own log deleted",
            before.len()
        )),
    );
    Ok(rows)
}
