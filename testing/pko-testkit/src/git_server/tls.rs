//! A TLS certificate for this machine, signed by a private authority.

use std::io;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

pub(super) struct ServerTls {
    pub(super) config: rustls::ServerConfig,
    /// In PEM
    pub(super) authority: String,
}

pub(super) fn server_tls() -> io::Result<ServerTls> {
    make().map_err(io::Error::other)
}

fn make() -> Result<ServerTls, Box<dyn std::error::Error + Send + Sync>> {
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = authority.self_signed(&authority_key)?;
    let issuer = Issuer::new(authority, &authority_key);

    let key = KeyPair::generate()?;
    let names = ["127.0.0.1", "localhost", "git.test"].map(str::to_owned);
    let own = CertificateParams::new(names.to_vec())?.signed_by(&key, &issuer)?;
    let provider = rustls::crypto::ring::default_provider();
    let config = rustls::ServerConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(
            vec![own.der().clone()],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
        )?;
    Ok(ServerTls {
        config,
        authority: certificate.pem(),
    })
}
