//! A bucket of a server of S3 (moto) outlives its node.

use std::fs;

use serde_json::json;
use terrace_testkit::{Moto, skip};

use super::place::{Place, noise};

#[test]
fn a_store_is_made_again_from_a_bucket() {
    let server = match Moto::start() {
        Ok(server) => server,
        Err(missing) => return skip("rebuild --from a bucket", &missing),
    };
    let place = Place::empty();
    let options: Vec<String> =
        server.options().into_iter().map(|(name, value)| format!("{name} = '{value}'")).collect();
    let disk = place.path("disk").display().to_string();
    let config = format!(
        "[store]\nreplicas = {{ default = 2 }}\n\
         [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{disk}']\n\
         [[tier]]\nname = 'bucket'\nkind = 'object'\nservice = 's3'\ntargets = ['/lost']\n\
         options = {{ bucket = '{}', {} }}\n",
        Moto::BUCKET_NAME,
        options.join(", ")
    );
    place.write("terrace.toml", config);
    place.good(["init", "--config", "terrace.toml"]);
    (0..3).for_each(|seed| drop(place.write(format!("runs/{seed}"), noise(300_000, seed))));
    place.good(["put", "runs", "runs", "-q"]);
    place.write("scratch", noise(100_000, 7));
    place.good(["put", "scratch", "scratch", "--replicas", "1", "-q"]);
    place.good(["sync", "-q"]);

    let rebuild = |bucket: &str, more: &[&str]| {
        let from = ["rebuild".to_owned(), "--from".to_owned(), format!("s3://{}/{bucket}", Moto::BUCKET_NAME)];
        let more = more.iter().map(|&flag| flag.to_owned());
        from.into_iter().chain(server.option_flags()).chain(more).collect::<Vec<String>>()
    };
    let lose = || {
        fs::remove_dir_all(place.path("store")).unwrap();
        // The second store has no directory here.
        let _ = fs::remove_dir_all(place.path("disk"));
    };
    lose();
    place.bad(rebuild("other", &[]), &["no store has a target there"]);
    place.bad(rebuild("lost", &[]), &["may still be in use", "repeat this with --force"]);
    let made = place.run(rebuild("lost", &["--force"]));
    assert!(made.code == 1 && made.err.contains("an empty target in"), "{}{}", made.out, made.err);
    assert!(made.out.contains("4 objects, 1 of them with lost bytes"), "{}", made.out);
    assert!(made.out.contains("no good replica is left of bytes of scratch"), "{}", made.out);
    place.good(["rm", "scratch", "-q"]);
    place.write("new", noise(200_000, 8));
    place.good(["put", "new", "runs/new", "-q"]);
    place.good(["sync", "-q"]);

    // A store that was made from a bucket can be lost again, and then lacks nothing.
    lose();
    let (made, code) = place.json(rebuild("lost", &["--force"]));
    assert_eq!((&made["objects"], &made["lost"], code), (&json!(4), &json!([]), 0), "{made}");
    place.good(["get", "runs", "again", "-q"]);
    for seed in 0..3 {
        assert!(place.read(format!("again/{seed}")) == noise(300_000, seed));
    }
    assert!(place.read("again/new") == noise(200_000, 8));
    assert_eq!(place.json(["scrub"]).0["lost"], json!(0));
}
