//! The versions of etcd that may keep a log.

/// Says why this version of etcd may not keep a log.
pub(super) fn check(version: &str) -> Result<(), &'static str> {
    const LOSES_DATA: &str = "which can lose data when it crashes";
    match parse(version) {
        None => Err("which is no version that is known here"),
        Some((..3, ..) | (3, ..4, _)) => Err("which is too old"),
        Some((3, 4, 20..=21) | (3, 5, ..=5)) => Err(LOSES_DATA),
        Some(_) => Ok(()),
    }
}

fn parse(version: &str) -> Option<(u32, u32, u32)> {
    let release = version.split(['-', '+']).next()?;
    let mut parts = release.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_are_old_or_lose_data_are_refused() {
        for refused in ["2.3.8", "3.3.27", "3.4.20", "3.4.21", "3.5.0", "3.5.5", "3.5.0-rc.1", "", "3.6", "next"] {
            assert!(check(refused).is_err(), "{refused}");
        }
        for good in ["3.4.19", "3.4.23", "3.5.6", "3.5.21", "3.6.0", "3.6.16", "3.7.0-beta.0", "4.0.0"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
    }
}
