//! Who may come in, decided by those who may decide it.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use weaver_api::{CreatedToken, LoginLink, NewToken, Page, PageQuery, Token};
use weaver_core::error::{Invalid, Problem as FieldProblem};
use weaver_core::name::Namespace;
use weaver_core::ports::Cursor;

use super::audit::Deed;
use super::caller::{Caller, Permission};
use super::extract::{Body, Name, Params};
use super::{Answer, AppState};
use crate::dashboard::login_path;
use crate::problem::Problem;
use crate::security::{self, LINK_LASTS, NamespaceScope, Sessions, TokenError, TokenInfo, Tokens};

/// The longest a token may last that does not last for ever: ten years.
pub(super) const EXPIRES_MAX_MS: u64 = 315_360_000_000;

/// The tokens, without their secrets.
#[utoipa::path(get, path = "/api/v1/tokens", tag = "tokens", params(PageQuery),
    responses((status = 200, description = "A page of tokens, by id", body = Page<Token>)))]
pub(crate) async fn list_tokens(
    State(state): State<AppState>,
    caller: Caller,
    Params(query): Params<PageQuery>,
) -> Answer<Json<Page<Token>>> {
    let tokens = managed(&state, &caller)?;
    let page = tokens.list(query.cursor.map(Cursor), state.page(query.limit)?).await?;
    let items = page.items.iter().map(Token::from).collect();
    Ok(Json(Page { items, next: page.next.map(|Cursor(text)| text), complete: page.complete }))
}

/// Make a token. The answer is the only place it is ever told.
#[utoipa::path(post, path = "/api/v1/tokens", tag = "tokens", request_body = NewToken,
    responses((status = 201, description = "The token, this once", body = CreatedToken)))]
pub(crate) async fn create_token(
    State(state): State<AppState>,
    caller: Caller,
    Body(request): Body<NewToken>,
) -> Answer<(StatusCode, Json<CreatedToken>)> {
    let tokens = managed(&state, &caller)?;
    // A role that cannot have it is a mistake, and answered as one.
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
    let deed = Deed::new("token.create", format!("token/{}", info.id));
    state.audit.write_of_server(&caller, deed.detail(format!("{}, for `{}`", info.role, info.name))).await;
    let created = CreatedToken { token: text.expose().to_owned(), info: Token::from(&info) };
    Ok((StatusCode::CREATED, Json(created)))
}

/// End a token. It is good for nothing from now on.
#[utoipa::path(delete, path = "/api/v1/tokens/{id}", tag = "tokens",
    params(("id" = String, Path, description = "The token's id, as the list shows it", min_length = 1)),
    responses((status = 204, description = "It is revoked")))]
pub(crate) async fn revoke_token(
    State(state): State<AppState>,
    caller: Caller,
    Name(id): Name,
) -> Answer<StatusCode> {
    let tokens = managed(&state, &caller)?;
    let id = id.parse().map_err(|_| no_such_token(&id))?;
    tokens.revoke(&id).await?;
    state.audit.write_of_server(&caller, Deed::new("token.revoke", format!("token/{id}"))).await;
    Ok(StatusCode::NO_CONTENT)
}

/// Make a link that logs a browser in once, as whoever asks.
#[utoipa::path(post, path = "/api/v1/login-links", tag = "tokens",
    responses((status = 201, description = "The link, this once", body = LoginLink)))]
pub(crate) async fn make_login_link(
    State(state): State<AppState>,
    caller: Caller,
) -> Answer<(StatusCode, Json<LoginLink>)> {
    let tokens = state.tokens.as_ref().ok_or_else(no_tokens)?;
    let sessions = Sessions::new(Arc::clone(tokens));
    let (token, secret) = match caller.token() {
        Some(token) => (token.clone(), sessions.make_link(token).await?),
        None => {
            caller.require_everywhere(Permission::ManageTokens)?;
            sessions.make_admin_link(caller.name(), caller.may_exec()).await?
        }
    };
    let expires_at = state.clock.now().saturating_add(LINK_LASTS);
    state.audit.write_of_server(&caller, Deed::new("login_link.create", format!("token/{token}"))).await;
    let address = state.address.as_deref().map(str::to_owned);
    Ok((StatusCode::CREATED, Json(LoginLink { path: login_path(&secret), address, expires_at })))
}

fn managed<'a>(state: &'a AppState, caller: &Caller) -> Answer<&'a Arc<Tokens>> {
    caller.require_everywhere(Permission::ManageTokens)?;
    state.tokens.as_ref().ok_or_else(no_tokens)
}

fn no_tokens() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "no_tokens",
        "this server asks nobody for a token",
        "start it with `weaver serve`, which does",
    )
}

fn lasting(ms: u64) -> Result<Duration, Invalid> {
    if (1..=EXPIRES_MAX_MS).contains(&ms) {
        return Ok(Duration::from_millis(ms));
    }
    let problem = FieldProblem::OutOfRange { value: ms, min: 1, max: EXPIRES_MAX_MS };
    Err(Invalid::new("expires_in_ms", problem))
}

fn scope(namespaces: Option<Vec<String>>) -> Answer<NamespaceScope> {
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
        format!("there is no token `{id}`"),
        "list the tokens to see what there is",
    )
}

impl From<TokenError> for Problem {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Invalid { field, reason } => {
                let next = "correct the field and send the request again";
                Self::bad_request("invalid_field", format!("{field}: {reason}"), next).field(field)
            }
            TokenError::NotFound { id } => no_such_token(id.as_str()),
            TokenError::Store(error) => error.into(),
        }
    }
}
