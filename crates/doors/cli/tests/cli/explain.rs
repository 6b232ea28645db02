//! Explanations of decisions, before and after they are taken.

use serde_json::{Value, json};

use crate::place::Place;

/// Numbers whose bytes hardly change, three of four.
fn numbers() -> Vec<u8> {
    (0..300_000u32).flat_map(|i| (f64::from(i) / 7e3).sin().to_le_bytes()).collect()
}

fn slow() -> Place {
    Place::with("", "throttle = { read = '20MB/s', write = '10MB/s' }")
}

/// Tier and encoding of the first piece of each replica.
fn places(explained: &Value) -> Vec<(String, String)> {
    let replicas = explained["explanation"]["replicas"].as_array().unwrap();
    let piece = |replica: &Value| {
        let piece = &replica["pieces"][0];
        let tier = &explained["targets"][piece["target"].as_u64().unwrap() as usize][0];
        let chosen = replica["weighed"].as_array().unwrap().iter().find(|row| row["verdict"]["chosen"].is_object());
        assert_eq!(&chosen.unwrap()["tier"], tier);
        (tier.as_str().unwrap().to_owned(), piece["encoding"].to_string())
    };
    replicas.iter().map(piece).collect()
}

#[test]
fn what_is_explained_of_a_file_is_what_is_done_with_it() {
    let place = slow();
    place.write("field.bin", numbers());
    let (before, _) = place.json(["explain", "field.bin", "--as", "runs/field.bin"]);
    assert_eq!((&before["key"], &before["then"]), (&json!("runs/field.bin"), &Value::Null));
    assert_eq!(before["now"]["measured"], json!([]));
    let planned = places(&before["now"]);
    assert_eq!((planned[0].0.as_str(), planned[1].0.as_str()), ("ram", "disk"));
    place.good(["put", "field.bin", "runs/field.bin"]);
    let (after, _) = place.json(["explain", "runs/field.bin"]);
    let measured = after["now"]["measured"].as_array().unwrap();
    let on = |tier: &'static str| measured.iter().filter(move |m| m["tier"] == tier);
    assert!(on("ram").count() > 0 && on("disk").count() > 0, "{measured:?}");
    assert!(on("disk").all(|m| m["encoding"] != "none" && m["stored"].as_u64() < m["bytes"].as_u64()), "{measured:?}");
    let words = place.good(["explain", "runs/field.bin"]);
    for part in ["2 of 2 replicas", "replica 1", "chosen", "times the cost", "does not outlive a reboot"] {
        assert!(words.contains(part), "{part:?} is not in: {words}");
    }
}

#[test]
fn what_would_be_otherwise_is_shown_beside_what_is() {
    let place = slow();
    place.write("field.bin", numbers());
    let supposed = ["--what-if", "tier.disk.write=5GB/s", "--what-if", "tier.disk.read=5GB/s"];
    let (both, _) = place.json([&["explain", "field.bin"][..], &supposed].concat());
    let (now, then) = (places(&both["now"]), places(&both["then"]));
    assert!(now[1].1 != then[1].1, "a disk as fast as that is given raw bytes: {now:?} {then:?}");
    let (both, _) = place.json(["explain", "field.bin", "--what-if", "tier.ram.capacity=0B"]);
    assert_eq!(places(&both["then"])[0].0, "disk");
    let words = place.good(["explain", "field.bin", "--min-storage"]);
    assert!(words.contains("as things are: ram") && words.contains("as supposed:   disk"), "{words}");
}

#[test]
fn rows_of_a_tier_come_in_the_order_of_their_costs() {
    let place = Place::empty();
    let targets: Vec<String> = ["a", "b", "c"].map(|name| format!("'{}/{name}'", place.path("").display())).into();
    let text = format!("[store]\n[[tier]]\nname = 'disks'\nkind = 'directory'\ntargets = [{}]\n", targets.join(", "));
    place.write("disks.toml", text);
    place.good(["init", "--config", "disks.toml"]);
    place.write("field.bin", numbers());
    let words = place.good(["explain", "field.bin", "--replicas", "3", "--min-storage"]);
    let costs = |table: &str| {
        let rows = table.lines().filter(|line| line.trim_start().starts_with("disks"));
        let cost = |line: &str| {
            line.split_whitespace().find_map(|word| word.parse::<f64>().ok().filter(|_| word.contains('.')))
        };
        rows.filter_map(cost).collect::<Vec<f64>>()
    };
    for table in words.split("\nreplica ").skip(1) {
        let costs = costs(table);
        assert!(costs.len() > 2 && costs.is_sorted(), "{words}");
    }
}

#[test]
fn what_is_shorter_than_a_page_is_explained_as_it_will_be_stored() {
    let place = slow();
    place.write("nothing", b"");
    place.write("byte", b"1");
    let words = place.good(["explain", "nothing"]);
    assert!(words.contains("nothing is stored of no bytes") && !words.contains("chosen"), "{words}");
    let words = place.good(["explain", "byte"]);
    assert!(words.contains("2 B stored") && words.contains("chosen for 1 page "), "{words}");
}

#[test]
fn scripts_are_told_encodings_by_name_and_costs_in_one_unit() {
    let place = slow();
    place.write("field.bin", numbers());
    let (told, _) = place.json(["explain", "field.bin"]);
    let of = &told["now"]["explanation"];
    let cost = of["replicas"][1]["weighed"].as_array().unwrap().iter().find(|row| row["verdict"]["chosen"].is_object());
    assert!(of["replicas"][0]["pieces"][0]["encoding"].is_string(), "{of}");
    assert!(of["replicas"][1]["weighed"].as_array().unwrap().iter().any(|row| row["encoding"] == "none"), "{of}");
    assert!((of["cost"]["then"].as_f64().unwrap() - cost.unwrap()["cost"].as_f64().unwrap()).abs() < 1e-9, "{of}");
}

#[test]
fn what_cannot_be_explained_is_refused_with_what_to_do() {
    let place = slow();
    place.bad(["explain", "nothing"], &["nothing is stored under \"nothing\"", "no file is there"]);
    place.write("a", b"bytes");
    place.good(["put", "a", "stored"]);
    place.bad(["explain", "stored", "--as", "z"], &["no file \"stored\" is there", "without --as"]);
    place.bad(["explain", "none", "--as", "z"], &["no file \"none\" is there"]);
    place.bad(["explain", "a", "--as", ""], &["--as", "it is empty"]);
    place.bad(["explain", "a", "--what-if", "tier.tape.read=1MB/s"], &["no tier \"tape\"", "ram, disk"]);
    let ran = place.run(["explain", "a", "--what-if", "disk=fast"]);
    assert!(ran.code == 2 && ran.err.contains("tier.NAME.capacity=2TiB"), "{}", ran.err);
}
