//! The certificate authority of a listener, and the certificate it serves with.

use std::sync::Arc;

use jiff::{Timestamp, ToSpan as _, tz::TimeZone};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::{
    RootCertStore, ServerConfig,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
    crypto::{CryptoProvider, ring},
    pki_types::{
        CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime,
        pem::PemObject as _,
    },
    version::{TLS12, TLS13},
};

use super::{AuthorityError, ListenError, state_dir::StateDir};
use crate::clock::{Clock as _, SystemClock};

const CERTIFICATE: &str = "ca.crt";
const KEY: &str = "ca.key";
const NAME: &str = "kruntimes local authority";
/// Names and addresses a client may reach the listener under.
const REACHED_AS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// How long the server's certificate lasts; a new one is made at each start.
const SERVER_DAYS: i64 = 800;

/// What signs the server's certificate and what clients trust; kept for good.
pub(super) struct Authority {
    key: KeyPair,
    pem: String,
}

impl Authority {
    /// Reads the authority of the directory, or makes one that does not expire.
    pub(super) fn open(state: &StateDir) -> Result<Self, ListenError> {
        let unusable = |error| unusable(state, AuthorityError::Certificate(error));
        if let (Some(pem), Some(key)) = (state.read(CERTIFICATE)?, state.read(KEY)?) {
            let key = KeyPair::from_pem(&key).map_err(unusable)?;
            return Ok(Self { key, pem });
        }
        let key = KeyPair::generate().map_err(unusable)?;
        let pem = params().self_signed(&key).map_err(unusable)?.pem();
        // The key last: without it, the next start begins anew.
        state.write(CERTIFICATE, &pem)?;
        state.write(KEY, &key.serialize_pem())?;
        Ok(Self { key, pem })
    }

    /// Returns the certificate that clients trust, as PEM.
    pub(super) fn pem(&self) -> &str {
        &self.pem
    }

    /// Makes a key and a certificate for the server, and checks that clients will accept it.
    pub(super) fn server_config(&self, state: &StateDir) -> Result<ServerConfig, ListenError> {
        self.try_server_config()
            .map_err(|error| unusable(state, error))
    }

    fn try_server_config(&self) -> Result<ServerConfig, AuthorityError> {
        let root = CertificateDer::from_pem_slice(self.pem.as_bytes())
            .map_err(|_| AuthorityError::NoCertificate)?;
        let provider = Arc::new(ring::default_provider());
        let (certificate, key) = self.issue().map_err(AuthorityError::Certificate)?;
        let certificate = certificate.der().clone();
        verify(&root, &certificate, &provider)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(AuthorityError::Tls)?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .map_err(AuthorityError::Tls)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    fn issue(&self) -> Result<(Certificate, KeyPair), rcgen::Error> {
        let key = KeyPair::generate()?;
        let now = SystemClock.now();
        let mut params = CertificateParams::new(REACHED_AS.map(str::to_owned))?;
        params
            .distinguished_name
            .push(DnType::CommonName, "kruntimes API service");
        let ((year, month, day), (last_year, last_month, last_day)) =
            (date(now, -1), date(now, SERVER_DAYS));
        params.not_before = date_time_ymd(year, month, day);
        params.not_after = date_time_ymd(last_year, last_month, last_day);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let issuer = Issuer::new(self::params(), &self.key);
        Ok((params.signed_by(&key, &issuer)?, key))
    }
}

fn unusable(state: &StateDir, source: AuthorityError) -> ListenError {
    ListenError::Authority {
        path: state.path().to_owned(),
        source,
    }
}

/// The authority without its key; equal each time, so that a kept certificate and new signatures belong together.
fn params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = date_time_ymd(2020, 1, 1);
    // The date that stands for "no expiry" in RFC 5280.
    params.not_after = date_time_ymd(9999, 12, 31);
    params
}

/// Returns year, month and day so many days from a moment.
fn date(now: Timestamp, days: i64) -> (i32, u8, u8) {
    let date = now.to_zoned(TimeZone::UTC).date();
    let date = date.saturating_add(days.days());
    let small = |number: i8| u8::try_from(number).unwrap_or(1);
    (
        i32::from(date.year()),
        small(date.month()),
        small(date.day()),
    )
}

/// Judges the certificate as a client will.
fn verify(
    root: &CertificateDer<'_>,
    certificate: &CertificateDer<'_>,
    provider: &Arc<CryptoProvider>,
) -> Result<(), AuthorityError> {
    let mut roots = RootCertStore::empty();
    roots
        .add(root.clone().into_owned())
        .map_err(AuthorityError::Tls)?;
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(AuthorityError::Verifier)?;
    let seconds = u64::try_from(SystemClock.now().as_second()).unwrap_or_default();
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
    let name = ServerName::IpAddress(std::net::IpAddr::from([127, 0, 0, 1]).into());
    verifier
        .verify_server_cert(certificate, &[], &name, &[], now)
        .map(|_| ())
        .map_err(AuthorityError::Tls)
}
