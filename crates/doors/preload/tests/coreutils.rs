//! Small programs: coreutils, tar, gzip, sed, awk, and what a shell does with files.

#![allow(clippy::unwrap_used)]

mod common;

use std::process::Stdio;

use common::{Place, have};
use terrace::PutOptions;
use terrace_testkit::wait_until;

/// A folder with files of several lengths, in the place's own directory.
const MAKE_TREE: &str = "
    mkdir -p tree/a/b tree/empty
    seq 100000 > tree/a/numbers; head -c 3000000 /dev/urandom > tree/a/b/random; : > tree/nothing
    ln -s a/numbers tree/link; chmod 750 tree/a/b; touch -d '2001-02-03 04:05:06.789' tree/nothing
";

#[test]
fn trees_are_copied_moved_and_packed() {
    let place = Place::new();
    place.sh(MAKE_TREE);
    place.sh("cp -a tree /terrace/copy; diff -r tree /terrace/copy; cp -r /terrace/copy /terrace/again; diff -r tree /terrace/again");
    place.sh("cd /terrace; tar -czf all.tgz copy; mkdir out; tar -xzf all.tgz -C out; diff -r copy out/copy; tar -dzf all.tgz");
    place.sh("mv /terrace/out/copy /terrace/moved; mv /terrace/moved back; diff -r tree back; rm -r back");
    place.sh("gzip -k /terrace/copy/a/numbers; gunzip -c /terrace/copy/a/numbers.gz | cmp - tree/a/numbers");
    let list = "cd tree; find . -printf '%p %y %m %s %T@ %l\\n' | sort";
    let of_directories =
        |text: &str| text.lines().filter(|line| !line.contains(" d ")).map(str::to_owned).collect::<Vec<_>>();
    let (own, copied) = (place.sh(list), place.sh(&list.replace("tree", "/terrace/copy")));
    let without_gz: Vec<String> = of_directories(&copied).into_iter().filter(|line| !line.contains(".gz ")).collect();
    assert_eq!(of_directories(&own), without_gz);
    place.sh("rm -r /terrace/again /terrace/copy; rmdir /terrace/out");
    assert_eq!(place.sh("ls -A /terrace"), "all.tgz\n");
}

/// The widths of the columns depend on the files' numbers, so only the fields are compared.
#[test]
fn long_lists_are_as_those_of_plain_files() {
    let place = Place::new();
    place.sh(MAKE_TREE);
    place.sh("cp -a tree /terrace/tree");
    // Permissions, owners, lengths of files, times, names, and where links lead. The file system gives directories their lengths.
    let list =
        "LC_ALL=C ls -lAR --time-style=full-iso | grep -v ^total | awk '/^d/ { $2 = $5 = \"-\" } { $1 = $1; print }'";
    let (plain, listed) = (place.sh(&format!("cd tree; {list}")), place.sh(&format!("cd /terrace/tree; {list}")));
    assert_eq!(plain, listed);
    assert!(listed.contains("2001-02-03 04:05:06.789") && listed.contains("link -> a/numbers"), "{listed}");
    let blocks = place.sh("ls -ls /terrace/tree/a/b/random | cut -d ' ' -f 1");
    assert_eq!(blocks.trim().parse(), Ok(2930), "3,000,000 bytes are as many KiB");
}

#[test]
fn bytes_go_through_small_programs_unchanged() {
    let place = Place::new();
    place.sh("head -c 5000001 /dev/urandom > bytes");
    place.sh("cat bytes > /terrace/a; cmp bytes /terrace/a; cat < /terrace/a | cmp - bytes");
    place.sh("dd if=bytes of=/terrace/b bs=7777 status=none; dd if=/terrace/b bs=100k status=none | cmp - bytes");
    place
        .sh("dd if=/terrace/b of=/terrace/c bs=64k status=none; cmp /terrace/c bytes; install -m 640 bytes /terrace/d");
    assert_eq!(place.sh("stat -c '%a %s %F' /terrace/d"), "640 5000001 regular file\n");
    place.sh("seq 5000 | sort -R > /terrace/e; sort -n -o /terrace/e /terrace/e; seq 5000 | cmp - /terrace/e");
    assert_eq!(place.sh("head -n 2 /terrace/e; tail -n 1 /terrace/e; wc -l < /terrace/e"), "1\n2\n5000\n5000\n");
    assert_eq!(
        place.sh("truncate -s 3 /terrace/e; cat /terrace/e; truncate -s 0 /terrace/e; stat -c %s /terrace/e"),
        "1\n20\n"
    );
    assert_eq!(place.sh("touch -d '1999-01-01 UTC' /terrace/a; stat -c %Y /terrace/a"), "915148800\n");
    // The test's own process sees what they have placed.
    assert_eq!(place.store().get(b"b").unwrap(), std::fs::read(place.dir.path().join("bytes")).unwrap());
}

#[test]
fn a_shell_redirects_to_and_from_the_store() {
    let place = Place::new();
    let printed = place.sh("
        (echo 1; /bin/echo 2; echo 3; /bin/echo 4 >&2) > /terrace/all 2>&1; echo 5 >> /terrace/all
        cat < /terrace/all
        cat <<END > /terrace/here
here $((1 + 1))
END
        read a b < /terrace/here; echo $b $a
        while read line; do last=$line; done < /terrace/all; echo $last
        exec 7> /terrace/seven; echo x >&7; /bin/echo y >&7; exec 7>&-; cat /terrace/seven
        [ -f /terrace/here ] && [ -d /terrace ] && [ ! -e /terrace/none ] && echo /terrace/h*
        cat /dev/stdin < /terrace/here; diff <(cat /terrace/here) /terrace/here
    ");
    assert_eq!(printed, "1\n2\n3\n4\n5\n2 here\n5\nx\ny\n/terrace/here\nhere 2\n");
}

#[test]
fn the_current_directory_may_be_in_the_store() {
    let place = Place::new();
    let printed = place.sh("
        mkdir -p /terrace/a/b; cd /terrace/a/b; pwd; /bin/pwd; echo x > f; cat ../b/f; ls; cd ..; ls b; /bin/pwd
        (cd b && realpath f ../../a); head -c 4 ../../etc/passwd; echo; cd /; ls terrace/a; cd; /bin/pwd | wc -l
    ");
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[..6], ["/terrace/a/b", "/terrace/a/b", "x", "f", "f", "/terrace/a"]);
    assert_eq!(lines[6..], ["/terrace/a/b/f", "/terrace/a", "root", "b", "1"]);
}

#[test]
fn links_lead_within_the_store_and_out_of_it() {
    let place = Place::new();
    let printed = place.sh("
        cd /terrace; mkdir -p d/e; echo in > d/e/f; ln -s d/e short; ln -s /terrace/short/f absolute; ln -s $HOME/own out; echo own > ~/own
        cat short/f absolute out; readlink absolute; realpath short/f; echo over > absolute; cat d/e/f
        stat -c %F short short/ short/.
        ln -s loop loop; cat loop 2>&1 || true; ln d/e/f hard 2>&1 || true
    ");
    let refused = "cat: loop: Too many levels of symbolic links\nln: failed to create hard link 'hard' => 'd/e/f': Operation not permitted\n";
    let kinds = "symbolic link\ndirectory\ndirectory\n";
    assert_eq!(printed, format!("in\nin\nown\n/terrace/short/f\n/terrace/d/e/f\nover\n{kinds}{refused}"));
}

#[test]
fn sed_and_awk_use_streams() {
    let place = Place::new();
    let printed = place.sh("
        awk 'BEGIN { print \"one\" > \"/terrace/s\"; close(\"/terrace/s\"); while ((getline line < \"/terrace/s\") > 0) print line }'
        sed -i s/one/two/ /terrace/s; cat /terrace/s; grep -c two /terrace/s; du -s --apparent-size /terrace | cut -f 2; df /terrace | wc -l
    ");
    assert_eq!(printed, "one\ntwo\n1\n/terrace\n2\n");
}

/// `tail -f` sees what another process appends and has not closed.
#[test]
fn a_growing_file_is_followed() {
    let place = Place::new();
    place.sh("echo 1 > /terrace/log");
    let seen = place.dir.path().join("seen");
    let mut tail = place
        .command("tail")
        .args(["-n", "+1", "-s", "0.05", "-f", "/terrace/log"])
        .stdout(std::fs::File::create(&seen).unwrap())
        .spawn()
        .unwrap();
    let mut writer = place
        .command("python3")
        .args([
            "-c",
            "
import sys
with open('/terrace/log', 'a', buffering=1) as log:
    print('2', file=log)
    sys.stdin.read()
",
        ])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the reader sees the line of the writer", || std::fs::read_to_string(&seen).unwrap() == "1\n2\n");
    assert!(writer.try_wait().unwrap().is_none(), "the writer has ended, so its file was closed");
    drop(writer.stdin.take());
    writer.wait().unwrap();
    tail.kill().unwrap();
    tail.wait().unwrap();
}

#[test]
fn a_killed_program_has_placed_what_it_closed_and_what_is_old() {
    let place = Place::new();
    let mut writer = place
        .command("python3")
        .args([
            "-c",
            "
import time
open('/terrace/closed', 'wb').write(b'c' * 3_000_000)
open_one = open('/terrace/open', 'wb', buffering=0)
open_one.write(b'o' * 1000)
time.sleep(1000)
",
        ])
        .spawn()
        .unwrap();
    let store = place.store();
    wait_until("the open file is placed", || store.get(b"open").is_ok_and(|bytes| bytes == [b'o'; 1000]));
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert_eq!(store.get(b"closed").unwrap(), vec![b'c'; 3_000_000]);
    assert_eq!(place.sh("wc -c < /terrace/open; echo more >> /terrace/open; wc -c < /terrace/open"), "1000\n1005\n");
}

#[test]
fn a_program_that_stays_outside_never_opens_the_store() {
    let place = Place::new();
    let nowhere = place.dir.path().join("nowhere");
    let outside = place
        .command("sh")
        .args(["-c", "echo x > f; cat f; ls / > /dev/null"])
        .env("TERRACE_STORE", &nowhere)
        .output()
        .unwrap();
    assert!(outside.status.success() && outside.stderr.is_empty(), "{outside:?}");
    let inside = place.command("cat").arg("/terrace/f").env("TERRACE_STORE", &nowhere).output().unwrap();
    let said = String::from_utf8(inside.stderr).unwrap();
    assert!(!inside.status.success() && said.contains("the store in") && said.contains("cannot be opened"), "{said}");
    let relative = place.command("true").env("TERRACE_STORE", "here").output().unwrap();
    assert!(String::from_utf8(relative.stderr).unwrap().contains("must be absolute paths"));
}

#[test]
fn attributes_ask_for_replicas_and_copies_keep_them() {
    let test = "attributes_ask_for_replicas_and_copies_keep_them";
    if !have(test, &["setfattr", "getfattr", "rsync"]) {
        return;
    }
    let place = Place::new();
    let printed = place.sh(r#"
        cd /terrace; head -c 100000 /dev/zero > a
        setfattr -n user.terrace.replicas -v 1 a; setfattr -n user.terrace.require -v min_storage a
        cp -a a b; rsync -X a c
        for name in a b c; do getfattr --only-values -n user.terrace.require $name; echo; done
        getfattr --only-values -n user.terrace.location b | cut -d' ' -f 1,2
        mkdir d; setfattr -n user.terrace.ack -v durable d; echo > d/f; getfattr --only-values -n user.terrace.ack d/f
    "#);
    assert_eq!(printed, "min_storage\nmin_storage\nmin_storage\n0-100000 disk\ndurable");
    let kept = |name: &[u8]| PutOptions::kept_with(name, &place.store().stat(name).unwrap()).unwrap().replicas;
    assert_eq!([b"a", b"b", b"c"].map(|name| kept(name)), [Some(1); 3]);
    let wrong = ["-n", "user.terrace.budget", "-v", "3", "/terrace/a"];
    let refused = place.command("setfattr").args(wrong).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("3x") && said.contains("Invalid argument"), "{said}");
}
