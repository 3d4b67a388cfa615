//! Connecting to DynamoDB: endpoint and credentials. By default only the local machine is allowed, with
//! placeholder credentials.

use std::time::Duration;

use aws_credential_types::Credentials;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Region};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};

use crate::db::AwsDb;
use crate::error::StoreError;

/// Default timeout of a request, after which it is retried.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The port that DynamoDB Local listens on by default.
const LOCAL_PORT: u16 = 8000;
/// Access key for DynamoDB Local, which does not check it and keeps one database per key.
const PLACEHOLDER: &str = "local";

/// Endpoint and credentials of DynamoDB.
#[derive(Clone)]
pub struct Connection {
    /// URL with scheme, such as `http://localhost:8000`.
    pub endpoint: String,
    /// The region, `us-east-1` by default; DynamoDB Local keeps one database per region.
    pub region: String,
    /// Whether the endpoint may be on another machine. Default: `false`.
    pub allow_aws: bool,
    /// Access key id, secret access key, and session token.
    pub credentials: Option<(String, String, Option<String>)>,
    /// Timeout of one request, after which it is retried. Default: 10 s.
    pub request_timeout: Duration,
}

impl std::fmt::Debug for Connection {
    /// Omits the credentials, so that they never reach a log.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Connection").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Connection {
    /// From a store URL: a local one such as `dynamodb://localhost:8000` uses plain HTTP, and port 8000 if it
    /// names none; any other uses TLS.
    /// Credentials and region come from `variable`, which reads the environment (`AWS_ACCESS_KEY_ID`,
    /// `AWS_REGION`, …).
    ///
    /// # Errors
    /// [`StoreError::InvalidUrl`] if the text is not such a URL.
    pub fn from_url(
        text: &str,
        allow_aws: bool,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, StoreError> {
        let place = text.strip_prefix("dynamodb://").unwrap_or_default().trim_end_matches('/');
        let known =
            place.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']'));
        if place.is_empty() || !known {
            return Err(StoreError::InvalidUrl { text: text.to_owned() });
        }
        let endpoint = match is_local(place) {
            true if has_port(place) => format!("http://{place}"),
            true => format!("http://{place}:{LOCAL_PORT}"),
            false => format!("https://{place}"),
        };
        let filled = |name: &str| variable(name).filter(|text| !text.is_empty());
        let region = filled("AWS_REGION").or_else(|| filled("AWS_DEFAULT_REGION"));
        let credentials = filled("AWS_ACCESS_KEY_ID")
            .zip(filled("AWS_SECRET_ACCESS_KEY"))
            .map(|(key, secret)| (key, secret, filled("AWS_SESSION_TOKEN")));
        Ok(Self {
            endpoint,
            region: region.unwrap_or_else(|| "us-east-1".to_owned()),
            allow_aws,
            credentials,
            request_timeout: REQUEST_TIMEOUT,
        })
    }

    /// Creates the client. No request is sent yet.
    ///
    /// # Errors
    /// If the endpoint is remote and not allowed, or has no credentials.
    pub fn open(&self) -> Result<AwsDb, StoreError> {
        let place = self.endpoint.split_once("://").map_or(self.endpoint.as_str(), |(_, place)| place);
        let local = is_local(place);
        let endpoint = self.endpoint.clone();
        if !local && !self.allow_aws {
            return Err(StoreError::NotLocal { endpoint });
        }
        let credentials = match &self.credentials {
            Some((key, secret, token)) => Credentials::new(key, secret, token.clone(), None, "weaver"),
            None if local => Credentials::new(PLACEHOLDER, PLACEHOLDER, None, None, "weaver"),
            None => return Err(StoreError::NoCredentials { endpoint }),
        };
        let http = if self.endpoint.starts_with("http://") {
            Builder::new().build_http()
        } else {
            Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https()
        };
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .operation_attempt_timeout(self.request_timeout)
            .build();
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(&self.endpoint)
            .region(Region::new(self.region.clone()))
            .credentials_provider(credentials)
            .http_client(http)
            .timeout_config(timeouts)
            // We retry requests ourselves, so that each is counted.
            .retry_config(RetryConfig::disabled())
            .build();
        Ok(AwsDb::new(Client::from_conf(config), endpoint))
    }
}

/// Whether a host, with or without a port, is the local machine.
fn is_local(place: &str) -> bool {
    let host = match place.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => place.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether a place names a port, after an IPv6 address too.
fn has_port(place: &str) -> bool {
    place.rsplit(']').next().is_some_and(|rest| rest.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn only_the_local_machine_is_allowed_by_default() {
        for text in ["dynamodb://localhost:8000", "dynamodb://127.0.0.1:8000/", "dynamodb://[::1]:8000"] {
            let connection = Connection::from_url(text, false, nothing).unwrap();
            assert!(connection.endpoint.starts_with("http://"), "{connection:?}");
            assert!(connection.open().is_ok(), "{text}");
        }
        let elsewhere = "dynamodb://dynamodb.eu-west-1.amazonaws.com";
        let refused = Connection::from_url(elsewhere, false, nothing).unwrap().open().unwrap_err();
        assert!(refused.to_string().contains("allow_aws"), "{refused}");
        let allowed = Connection::from_url(elsewhere, true, nothing).unwrap();
        assert!(allowed.endpoint.starts_with("https://"));
        let refused = allowed.open().unwrap_err();
        assert!(refused.to_string().contains("AWS_ACCESS_KEY_ID"), "{refused}");
        let with = Connection::from_url(elsewhere, true, |name| Some(name.to_owned())).unwrap();
        assert!(with.open().is_ok());
        assert!(!format!("{with:?}").contains("AWS_SECRET_ACCESS_KEY"), "a secret never shows");
    }

    #[test]
    fn a_local_url_without_a_port_means_the_port_of_dynamodb_local() {
        for (text, endpoint) in [
            ("dynamodb://localhost", "http://localhost:8000"),
            ("dynamodb://127.0.0.1/", "http://127.0.0.1:8000"),
            ("dynamodb://[::1]", "http://[::1]:8000"),
            ("dynamodb://[::1]:4566", "http://[::1]:4566"),
            ("dynamodb://localhost:4566", "http://localhost:4566"),
            ("dynamodb://dynamodb.eu-west-1.amazonaws.com", "https://dynamodb.eu-west-1.amazonaws.com"),
        ] {
            assert_eq!(Connection::from_url(text, true, nothing).unwrap().endpoint, endpoint, "{text}");
        }
    }

    #[test]
    fn an_invalid_url_is_refused_with_an_example() {
        for text in ["dynamodb://", "dynamodb:", "dynamodb://a b", "dynamodb://key:secret@host"] {
            let refused = Connection::from_url(text, true, nothing).unwrap_err();
            assert!(refused.to_string().contains("dynamodb://localhost:8000"), "{text}");
        }
    }
}
