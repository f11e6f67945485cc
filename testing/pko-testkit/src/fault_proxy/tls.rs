//! TLS on both sides of the proxy, with certificates of the plane's own authority.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::ProxyError;
use crate::control_plane::{Authority, Identity};

const PROTOCOL: &[u8] = b"http/1.1";

type CertificateAndKey = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// For clients of the proxy.
pub(super) fn acceptor(authority: &Authority) -> Result<TlsAcceptor, ProxyError> {
    let (certificates, key) = pair(&authority.server("fault-proxy")?)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(Arc::new(config).into())
}

/// To the API server, as a user.
pub(super) fn connector(
    authority: &Authority,
    identity: &Identity,
) -> Result<TlsConnector, ProxyError> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().into())?;
    let (certificates, key) = pair(identity)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(certificates, key)?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(Arc::new(config).into())
}

fn pair(identity: &Identity) -> Result<CertificateAndKey, ProxyError> {
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())?;
    Ok((vec![certificate], key))
}
