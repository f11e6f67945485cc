//! Whether we go where a server sends us. Pure.

use super::{
    super::{Address, Scheme, error::RedirectRefusal},
    guard::{is_internal, is_this_machine},
};

/// How many times we are sent on before we stop.
pub(super) const MOST: u32 = 3;

/// Whether to follow a redirect.
pub(super) fn judge(
    from: &Address,
    to: Option<Address>,
    has_credentials: bool,
    followed: u32,
) -> Result<Address, RedirectRefusal> {
    let to = to.ok_or(RedirectRefusal::NotARepository)?;
    if followed >= MOST {
        return Err(RedirectRefusal::TooMany);
    }
    if from.scheme() == Scheme::Https && to.scheme() != Scheme::Https {
        return Err(RedirectRefusal::Downgrade);
    }
    if has_credentials && !may_see_credentials(from, &to) {
        return Err(RedirectRefusal::CredentialsElsewhere);
    }
    if is_inward(from, &to) {
        return Err(RedirectRefusal::Internal);
    }
    Ok(to)
}

/// The same server, or the same host with TLS instead of none on the usual ports.
fn may_see_credentials(from: &Address, to: &Address) -> bool {
    let is_upgrade = from.scheme() == Scheme::Http && to.scheme() == Scheme::Https;
    from.same_server(to)
        || (is_upgrade && from.same_host(to) && (from.port(), to.port()) == (80, 443))
}

/// From elsewhere to where only this machine can go.
fn is_inward(from: &Address, to: &Address) -> bool {
    let number = to.host().parse().is_ok_and(is_internal);
    let inward = number || is_this_machine(to.host());
    let stays = from.same_host(to) || (is_this_machine(from.host()) && is_this_machine(to.host()));
    inward && !stays
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(from: &str, to: &str, has_credentials: bool) -> Result<(), RedirectRefusal> {
        let address = |text| Address::parse(text).unwrap();
        judge(&address(from), Some(address(to)), has_credentials, 0).map(|_| ())
    }

    #[test]
    fn where_we_go() {
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
            assert_eq!(judged(from, to, true), with, "{from} {to} with credentials");
            assert_eq!(judged(from, to, false), without, "{from} {to} without");
        }
    }

    #[test]
    fn not_for_ever_and_not_anywhere() {
        let address = Address::parse("https://h/r").unwrap();
        assert_eq!(
            judge(&address, Some(address.clone()), false, MOST),
            Err(RedirectRefusal::TooMany)
        );
        assert_eq!(
            judge(&address, None, false, 0),
            Err(RedirectRefusal::NotARepository)
        );
    }
}
