//! The certificates of one control plane, signed by its own authority.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType,
};

/// The object identifier of an organization name.
const ORGANIZATION: [u64; 4] = [2, 5, 4, 10];

/// A certificate and its key, both in PEM.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Signs the certificates of one control plane, and of no other: two planes never accept
/// each other's clients or servers for their own, even if they meet on a port.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Result<Self, CertificateError> {
        let mut parameters = parameters("pko-testkit")?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
        ];
        Ok(Self(CertifiedIssuer::self_signed(
            parameters,
            KeyPair::generate()?,
        )?))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn der(&self) -> Vec<u8> {
        self.0.der().to_vec()
    }

    /// For a server on the loopback interface.
    pub(crate) fn server(&self, name: &str) -> Result<Identity, CertificateError> {
        self.server_at(name, &[], &[])
    }

    /// For a server with additional addresses and names.
    pub(crate) fn server_at(
        &self,
        name: &str,
        addresses: &[Ipv4Addr],
        names: &[&str],
    ) -> Result<Identity, CertificateError> {
        let mut parameters = parameters(name)?;
        for address in [Ipv4Addr::LOCALHOST].iter().chain(addresses) {
            let address = SanType::IpAddress(IpAddr::V4(*address));
            parameters.subject_alt_names.push(address);
        }
        for name in ["localhost"].iter().chain(names) {
            let name = SanType::DnsName((*name).try_into()?);
            parameters.subject_alt_names.push(name);
        }
        // etcd's JSON gateway calls etcd itself with the server's certificate
        self.sign(
            &mut parameters,
            &[
                ExtendedKeyUsagePurpose::ServerAuth,
                ExtendedKeyUsagePurpose::ClientAuth,
            ],
        )
    }

    /// For a user in groups, as the API server reads a client certificate: the common name is the
    /// user, the organizations are the groups.
    pub(crate) fn client(&self, user: &str, groups: &[&str]) -> Result<Identity, CertificateError> {
        let mut parameters = parameters(user)?;
        // rcgen keeps one value per attribute type, but takes the same attribute under two types
        let types = [
            DnType::OrganizationName,
            DnType::CustomDnType(ORGANIZATION.to_vec()),
        ];
        if groups.len() > types.len() {
            return Err(CertificateError::TooManyGroups(user.to_owned()));
        }
        for (attribute, group) in types.into_iter().zip(groups) {
            parameters.distinguished_name.push(attribute, *group);
        }
        self.sign(&mut parameters, &[ExtendedKeyUsagePurpose::ClientAuth])
    }

    fn sign(
        &self,
        parameters: &mut CertificateParams,
        purposes: &[ExtendedKeyUsagePurpose],
    ) -> Result<Identity, CertificateError> {
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = purposes.to_vec();
        let key = KeyPair::generate()?;
        let certificate = parameters.signed_by(&key, &self.0)?;
        Ok(Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

/// The key pair with which the API server signs service account tokens: public, then private.
pub(crate) fn token_keys() -> Result<(String, String), CertificateError> {
    let key = KeyPair::generate()?;
    Ok((key.public_key_pem(), key.serialize_pem()))
}

fn parameters(name: &str) -> Result<CertificateParams, CertificateError> {
    let mut parameters = CertificateParams::new([])?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::CommonName, name);
    // Clocks differ a little, and no plane lives for a month
    let now = SystemTime::now();
    let day = Duration::from_hours(24);
    parameters.not_before = (now - day).into();
    parameters.not_after = (now + 30 * day).into();
    Ok(parameters)
}

/// Why a certificate can't be made.
#[derive(thiserror::Error)]
pub enum CertificateError {
    #[error("failed to make a certificate")]
    Generate(#[from] rcgen::Error),
    /// More groups than a certificate made here can carry.
    #[error("a client certificate carries at most two groups here; `{0}` has more")]
    TooManyGroups(String),
}

crate::error_text::debug_is_text!(CertificateError);
