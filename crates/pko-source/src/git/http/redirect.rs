//! Decides whether to follow a redirect. Does no I/O.

use super::{
    super::{Address, Scheme, error::RedirectRefusal},
    ssrf_guard::{is_internal, is_this_machine},
};

pub(super) const MAX_REDIRECTS: u32 = 3;

pub(super) fn check(
    from: &Address,
    to: Option<Address>,
    has_credentials: bool,
    followed: u32,
) -> Result<Address, RedirectRefusal> {
    let to = to.ok_or(RedirectRefusal::NotARepository)?;
    if followed >= MAX_REDIRECTS {
        return Err(RedirectRefusal::TooMany);
    }
    if from.scheme() == Scheme::Https && to.scheme() != Scheme::Https {
        return Err(RedirectRefusal::Downgrade);
    }
    if has_credentials && !may_see_credentials(from, &to) {
        return Err(RedirectRefusal::CredentialsElsewhere);
    }
    if leads_inward(from, &to) {
        return Err(RedirectRefusal::Internal);
    }
    Ok(to)
}

/// The same server, or an upgrade to https on the default ports of the same host.
fn may_see_credentials(from: &Address, to: &Address) -> bool {
    let is_upgrade = from.scheme() == Scheme::Http && to.scheme() == Scheme::Https;
    from.same_server(to)
        || (is_upgrade && from.same_host(to) && (from.port(), to.port()) == (80, 443))
}

/// From another host to an address of this machine.
fn leads_inward(from: &Address, to: &Address) -> bool {
    let number = to.host().parse().is_ok_and(is_internal);
    let inward = number || is_this_machine(to.host());
    let stays = from.same_host(to) || (is_this_machine(from.host()) && is_this_machine(to.host()));
    inward && !stays
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_addresses(from: &str, to: &str, has_credentials: bool) -> Result<(), RedirectRefusal> {
        let address = |text| Address::parse(text).unwrap();
        check(&address(from), Some(address(to)), has_credentials, 0).map(|_| ())
    }

    #[test]
    fn redirect_targets_are_checked() {
        use RedirectRefusal::{CredentialsElsewhere, Downgrade, Internal};
        for (from, to, with, without) in [
            ("https://h/r", "https://h/r.git", Ok(()), Ok(())),
            ("http://h/r", "https://h/r", Ok(()), Ok(())),
            (
                "http://h:80/r",
                "https://h:8443/r",
                Err(CredentialsElsewhere),
                Ok(()),
            ),
            (
                "https://h/r",
                "https://other/r",
                Err(CredentialsElsewhere),
                Ok(()),
            ),
            (
                "https://h/r",
                "https://h:8443/r",
                Err(CredentialsElsewhere),
                Ok(()),
            ),
            (
                "https://h/r",
                "https://h.evil/r",
                Err(CredentialsElsewhere),
                Ok(()),
            ),
            ("https://h/r", "http://h/r", Err(Downgrade), Err(Downgrade)),
            (
                "http://h/r",
                "http://169.254.169.254/r",
                Err(CredentialsElsewhere),
                Err(Internal),
            ),
            (
                "http://h/r",
                "http://localhost/r",
                Err(CredentialsElsewhere),
                Err(Internal),
            ),
            (
                "http://h/r",
                "http://[::1]/r",
                Err(CredentialsElsewhere),
                Err(Internal),
            ),
            (
                "http://127.0.0.1:1/r",
                "http://localhost:2/r",
                Err(CredentialsElsewhere),
                Ok(()),
            ),
            (
                "http://127.0.0.1:1/r",
                "http://169.254.169.254/r",
                Err(CredentialsElsewhere),
                Err(Internal),
            ),
        ] {
            assert_eq!(
                check_addresses(from, to, true),
                with,
                "{from} {to} with credentials"
            );
            assert_eq!(
                check_addresses(from, to, false),
                without,
                "{from} {to} without"
            );
        }
    }

    #[test]
    fn redirect_limit_and_invalid_target() {
        let address = Address::parse("https://h/r").unwrap();
        assert_eq!(
            check(&address, Some(address.clone()), false, MAX_REDIRECTS),
            Err(RedirectRefusal::TooMany)
        );
        assert_eq!(
            check(&address, None, false, 0),
            Err(RedirectRefusal::NotARepository)
        );
    }
}
