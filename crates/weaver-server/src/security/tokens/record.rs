//! The stored form of a token.

use serde::{Deserialize, Serialize};
use weaver_core::error::Error;
use weaver_core::time::Timestamp;

use super::{TOKEN_KIND, TokenInfo};
use crate::security::identity::Identity;
use crate::security::role::Role;
use crate::security::scope::NamespaceScope;
use crate::security::token_text::TokenHash;

pub(super) struct Record {
    pub(super) info: TokenInfo,
    pub(super) hash: TokenHash,
    pub(super) identity: Identity,
}

/// The document's body. An unknown field may be a restriction of a newer version: such a token is refused.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    name: String,
    role: Role,
    namespaces: NamespaceScope,
    may_exec: bool,
    hash: TokenHash,
    created_at: Timestamp,
    created_by: String,
    expires_at: Option<Timestamp>,
}

impl Record {
    pub(super) fn encode(info: &TokenInfo, hash: &TokenHash) -> Vec<u8> {
        let body = Body {
            name: info.name.to_string(),
            role: info.role,
            namespaces: info.namespaces.clone(),
            may_exec: info.may_exec,
            hash: hash.clone(),
            created_at: info.created_at,
            created_by: info.created_by.clone(),
            expires_at: info.expires_at,
        };
        serde_json::to_vec(&body).expect("texts, flags and instants are always JSON")
    }

    pub(super) fn decode(id: &str, body: &[u8]) -> Result<Self, Error> {
        let damaged = |reason: String| Error::Damaged {
            what: format!("document {TOKEN_KIND}/{id} ({reason})"),
            remedy: "revoke the token and create a new one".to_owned(),
        };
        let id = id.parse().map_err(|_| damaged("its id is not a token id".to_owned()))?;
        let body: Body = serde_json::from_slice(body).map_err(|error| damaged(error.to_string()))?;
        let info = TokenInfo {
            id,
            name: body.name.into(),
            role: body.role,
            namespaces: body.namespaces,
            may_exec: body.may_exec,
            created_at: body.created_at,
            created_by: body.created_by,
            expires_at: body.expires_at,
        };
        let identity = Identity {
            name: info.name.clone(),
            role: info.role,
            namespaces: info.namespaces.clone(),
            may_exec: info.may_exec,
            token: Some(info.id.clone()),
        };
        Ok(Self { info, hash: body.hash, identity })
    }
}
