//! How fast recovery rebuilds the catalog.

use anyhow::{Result, ensure};
use terrace::{Ack, PutOptions, Store};

use crate::place::{Place, random_bytes};
use crate::row::Row;
use crate::timing::{median, time};

const OBJECT_COUNT: usize = 200_000;

pub fn run() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let store = place.store("store", 0)?;
    let bytes = random_bytes(512, 1);
    let options = PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() };
    for i in 0..OBJECT_COUNT {
        store.put_bytes(format!("runs/{:03}/{i:07}", i % 100).as_bytes(), &bytes, &options)?;
    }
    store.sync()?;
    let dir = store.dir().to_owned();
    let before = store.catalog().count()?;
    drop(store);
    let mut times = Vec::new();
    for _ in 0..3 {
        let (took, rebuilt) = time(|| Ok(Store::rebuild(&dir)?))?;
        ensure!(rebuilt.catalog().count()? == before);
        times.push(took);
    }
    let took = median(times);
    Ok(vec![
        Row::new("rebuild", "objects per second", OBJECT_COUNT as f64 / took, "1/s")
            .details(format!("{OBJECT_COUNT} objects in {took:.2} s, log in the page cache")),
    ])
}
