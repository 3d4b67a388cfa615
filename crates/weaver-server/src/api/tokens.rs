//! Managing tokens and login links.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use weaver_api::{CreatedToken, LoginLink, NewToken, Page, PageQuery, Token};
use weaver_core::error::{Invalid, Problem as FieldProblem};
use weaver_core::name::Namespace;
use weaver_core::ports::Cursor;

use super::audit::AuditRecord;
use super::caller::{Caller, Permission};
use super::extract::{Body, Name, Params};
use super::{ApiResult, AppState};
use crate::dashboard::login_path;
use crate::problem::Problem;
use crate::security::{self, LINK_TTL, NamespaceScope, Sessions, TokenError, TokenInfo, Tokens};

/// The longest lifetime of a token that expires: ten years.
pub(super) const EXPIRES_MAX_MS: u64 = 315_360_000_000;

/// List tokens, without their secrets.
#[utoipa::path(get, path = "/api/v1/tokens", tag = "tokens", params(PageQuery),
    responses((status = 200, description = "A page of tokens, by id", body = Page<Token>)))]
pub(crate) async fn list_tokens(
    State(state): State<AppState>,
    caller: Caller,
    Params(query): Params<PageQuery>,
) -> ApiResult<Json<Page<Token>>> {
    let tokens = managed(&state, &caller)?;
    let page = tokens.list(query.cursor.map(Cursor), state.page(query.limit)?).await?;
    let items = page.items.iter().map(Token::from).collect();
    Ok(Json(Page { items, next: page.next.map(|Cursor(text)| text), complete: page.complete }))
}

/// Create a token. Its secret is in this response only.
#[utoipa::path(post, path = "/api/v1/tokens", tag = "tokens", request_body = NewToken,
    responses((status = 201, description = "The token, with its secret", body = CreatedToken)))]
pub(crate) async fn create_token(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<NewToken>,
) -> ApiResult<(StatusCode, Json<CreatedToken>)> {
    let tokens = managed(&state, &caller)?;
    // For a role that cannot have it the request is invalid (400), not forbidden.
    if request.may_exec && Permission::EnqueueExec.is_of(request.role) {
        caller.require_granting_exec()?;
    }
    let lasting = request.expires_in_ms.map(lasting).transpose()?;
    let now = state.clock.now();
    let (text, info) = tokens
        .create(security::NewToken {
            name: request.name,
            role: request.role,
            namespaces: scope(request.namespaces)?,
            may_exec: request.may_exec,
            expires_at: lasting.map(|span| now.saturating_add(span)),
            created_by: caller.name().to_owned(),
        })
        .await?;
    let record = AuditRecord::new("token.create", format!("token/{}", info.id));
    state.audit.write_of_server(&caller, record.detail(format!("{}, for `{}`", info.role, info.name))).await;
    let created = CreatedToken { token: text.expose().to_owned(), info: Token::from(&info) };
    Ok((StatusCode::CREATED, Json(created)))
}

/// Revoke a token, effective at once on this server.
#[utoipa::path(delete, path = "/api/v1/tokens/{id}", tag = "tokens",
    params(("id" = String, Path, description = "The token's id, as the list shows it", min_length = 1)),
    responses((status = 204, description = "The token is revoked")))]
pub(crate) async fn revoke_token(
    State(state): State<AppState>,
    caller: Caller,
    Name(id): Name,
) -> ApiResult<StatusCode> {
    let tokens = managed(&state, &caller)?;
    let id = id.parse().map_err(|_| no_such_token(&id))?;
    tokens.revoke(&id).await?;
    state.audit.write_of_server(&caller, AuditRecord::new("token.revoke", format!("token/{id}"))).await;
    Ok(StatusCode::NO_CONTENT)
}

/// Create a one-time login link for a browser, as the caller.
#[utoipa::path(post, path = "/api/v1/login-links", tag = "tokens",
    responses((status = 201, description = "The link; it works once", body = LoginLink)))]
pub(crate) async fn make_login_link(
    State(state): State<AppState>,
    caller: Caller,
) -> ApiResult<(StatusCode, Json<LoginLink>)> {
    let tokens = state.tokens.as_ref().ok_or_else(no_tokens)?;
    let sessions = Sessions::new(Arc::clone(tokens));
    let (token, secret) = match caller.token() {
        Some(token) => (token.clone(), sessions.make_link(token).await?),
        None => {
            caller.require_everywhere(Permission::ManageTokens)?;
            sessions.make_admin_link(caller.name(), caller.may_exec()).await?
        }
    };
    let expires_at = state.clock.now().saturating_add(LINK_TTL);
    state
        .audit
        .write_of_server(&caller, AuditRecord::new("login_link.create", format!("token/{token}")))
        .await;
    let address = state.address.as_deref().map(str::to_owned);
    Ok((StatusCode::CREATED, Json(LoginLink { path: login_path(&secret), address, expires_at })))
}

fn managed<'a>(state: &'a AppState, caller: &Caller) -> ApiResult<&'a Arc<Tokens>> {
    caller.require_everywhere(Permission::ManageTokens)?;
    state.tokens.as_ref().ok_or_else(no_tokens)
}

fn no_tokens() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "no_tokens",
        "this server runs without tokens",
        "start it with `weaver serve`, which uses tokens",
    )
}

fn lasting(ms: u64) -> Result<Duration, Invalid> {
    if (1..=EXPIRES_MAX_MS).contains(&ms) {
        return Ok(Duration::from_millis(ms));
    }
    let problem = FieldProblem::OutOfRange { value: ms, min: 1, max: EXPIRES_MAX_MS };
    Err(Invalid::new("expires_in_ms", problem))
}

fn scope(namespaces: Option<Vec<String>>) -> ApiResult<NamespaceScope> {
    let Some(namespaces) = namespaces else { return Ok(NamespaceScope::All) };
    let names: Result<Vec<_>, _> = namespaces.into_iter().map(Namespace::new).collect();
    Ok(NamespaceScope::only(names?))
}

impl From<&TokenInfo> for Token {
    fn from(info: &TokenInfo) -> Self {
        let namespaces = match &info.namespaces {
            NamespaceScope::All => None,
            NamespaceScope::Only(names) => Some(names.iter().map(ToString::to_string).collect()),
        };
        Self {
            id: info.id.to_string(),
            name: info.name.to_string(),
            role: info.role,
            namespaces,
            may_exec: info.may_exec,
            created_at: info.created_at,
            created_by: info.created_by.clone(),
            expires_at: info.expires_at,
        }
    }
}

fn no_such_token(id: &str) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "no_such_token",
        format!("no token `{id}`"),
        "list the tokens; it may have been revoked already",
    )
}

impl From<TokenError> for Problem {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Invalid { field, reason } => {
                let hint = "correct the field and send the request again";
                Self::bad_request("invalid_field", format!("{field}: {reason}"), hint).field(field)
            }
            TokenError::NotFound { id } => no_such_token(id.as_str()),
            TokenError::Store(error) => error.into(),
        }
    }
}
