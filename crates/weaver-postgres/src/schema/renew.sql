-- Renewals, and rows of their own for members of shared rows.

-- Moves members of a shared row to rows of their own, with the same lease. The caller has locked the row FOR UPDATE: an end that is being
-- written would leave its task's new row behind.
CREATE FUNCTION weaver.split(p_lease_id bigint, p_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    v_new bigint[];
BEGIN
    WITH split AS (
        INSERT INTO weaver.leases (first_id, last_id, token, started_at, expires_at, ttl_us, epoch, check_deadline_at, ready_at,
            first_started_at, version, attempt, executions, renewals, failures, losses, format, state, is_shared, namespace, queue,
            worker, serial_key, last_error, ids)
        SELECT m.id, m.id, l.token, l.started_at, l.expires_at, l.ttl_us, l.epoch, l.check_deadline_at, l.ready_at,
            l.first_started_at, l.version, l.attempt, l.executions, l.renewals, l.failures, l.losses, l.format, l.state, false,
            l.namespace, l.queue, l.worker, l.serial_key, l.last_error, ARRAY[m.id]
        FROM weaver.leases l CROSS JOIN LATERAL unnest(l.ids) AS m (id)
        WHERE l.lease_id = p_lease_id AND l.is_shared AND m.id = ANY (p_ids) AND m.id <> ALL (l.gone)
            AND NOT EXISTS (SELECT FROM weaver.ended e WHERE e.id = m.id) AND NOT weaver.is_being_completed(m.id)
        RETURNING lease_id, first_id
    )
    SELECT array_agg(s.lease_id), array_agg(s.first_id) INTO v_new, p_ids FROM split s;
    PERFORM weaver.leave(ARRAY[p_lease_id], p_ids);
    RETURN v_new;
END
$$;

-- Gives a task that a worker holds a row of its own.
CREATE FUNCTION weaver.split_off(p_id bigint, p_token uuid) RETURNS void LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
DECLARE
    v_lease_id bigint;
BEGIN
    SELECT l.lease_id INTO v_lease_id FROM weaver.leases l
    WHERE l.token = p_token AND l.is_shared::integer = 1 AND p_id = ANY (l.ids) AND p_id <> ALL (l.gone) FOR UPDATE;
    IF FOUND THEN
        PERFORM weaver.split(v_lease_id, ARRAY[p_id]);
    END IF;
END
$$;

-- Renews some members of a shared row that the caller has locked. The row is renewed if all members that have not left are among them;
-- otherwise these move to a row of their own, so that the others' lease expires in time. That row is shared even if it has one member: an
-- end that is being written meanwhile does not delete it, but `drop_leases` does.
CREATE FUNCTION weaver.renew_members(p_lease_id bigint, p_ids bigint[], p_now timestamptz) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    v_open bigint[] := ARRAY(SELECT m.id FROM weaver.leases l CROSS JOIN LATERAL unnest(l.ids) AS m (id)
        WHERE l.lease_id = p_lease_id AND m.id <> ALL (l.gone)
            AND NOT EXISTS (SELECT FROM weaver.ended e WHERE e.id = m.id));
    v_asked bigint[] := ARRAY(SELECT o.id FROM unnest(v_open) AS o (id) WHERE o.id = ANY (p_ids));
BEGIN
    IF cardinality(v_asked) = 0 THEN
        RETURN NULL;
    ELSIF cardinality(v_asked) = cardinality(v_open) THEN
        UPDATE weaver.leases l SET renewals = l.renewals + 1, expires_at = weaver.later(p_now, l.ttl_us)
        WHERE l.lease_id = p_lease_id;
        RETURN v_asked;
    END IF;
    INSERT INTO weaver.leases (first_id, last_id, token, started_at, expires_at, ttl_us, epoch, ready_at, first_started_at, version,
        attempt, executions, renewals, failures, losses, format, state, is_shared, namespace, queue, worker, ids)
    SELECT (SELECT min(a.id) FROM unnest(v_asked) AS a (id)), (SELECT max(a.id) FROM unnest(v_asked) AS a (id)), l.token,
        l.started_at, weaver.later(p_now, l.ttl_us), l.ttl_us, l.epoch, l.ready_at, l.first_started_at, l.version, l.attempt,
        l.executions, l.renewals + 1, l.failures, l.losses, l.format, l.state, true, l.namespace, l.queue, l.worker, v_asked
    FROM weaver.leases l WHERE l.lease_id = p_lease_id;
    PERFORM weaver.leave(ARRAY[p_lease_id], v_asked);
    RETURN v_asked;
END
$$;

-- Renews the rows of single tasks that the caller has locked.
CREATE FUNCTION weaver.renew_singles(p_namespace text, p_lease_ids bigint[], p_ids bigint[], p_versions bigint[], p_tokens uuid[],
    p_epochs bigint[], p_within_us bigint[], p_continue boolean[], p_now timestamptz) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    v_applied bigint[];
BEGIN
    WITH extended AS (
        UPDATE weaver.leases l
        SET renewals = l.renewals + 1, expires_at = greatest(weaver.later(p_now, l.ttl_us), d.deadline),
            check_deadline_at = d.deadline
        FROM weaver.leases k
        JOIN unnest(p_ids, p_versions, p_tokens, p_epochs, p_within_us, p_continue)
            AS i (id, version, token, epoch, within_us, continue) ON i.id = k.first_id
        CROSS JOIN LATERAL (SELECT CASE WHEN i.within_us IS NOT NULL THEN weaver.later(p_now, i.within_us)
            WHEN NOT i.continue THEN k.check_deadline_at END AS deadline) d
        WHERE l.lease_id = k.lease_id AND k.lease_id = ANY (p_lease_ids) AND NOT k.is_shared AND k.namespace = p_namespace
            AND k.state = {number(running)} AND k.version = i.version AND k.token = i.token
            -- 0: it was leased, not assigned.
            AND coalesce(k.epoch, 0) = i.epoch
        RETURNING l.first_id
    )
    SELECT array_agg(first_id) INTO v_applied FROM extended;
    RETURN v_applied;
END
$$;

-- Renews leases that are still valid. Rows locked by another transaction are skipped, never waited for.
CREATE FUNCTION weaver.renew(p_namespace text, p_ids bigint[], p_versions bigint[], p_tokens uuid[],
    p_epochs bigint[], p_fractions real[], p_messages text[], p_within_us bigint[], p_continue boolean[])
RETURNS bigint[] LANGUAGE plpgsql
    SET enable_seqscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_tokens uuid[] := ARRAY(SELECT DISTINCT t.token FROM unnest(p_tokens) AS t (token));
    v_locked bigint[] := ARRAY(SELECT l.lease_id FROM weaver.leases l
        WHERE l.token = ANY (v_tokens) AND (l.is_shared OR l.first_id = ANY (p_ids)) ORDER BY l.lease_id
        FOR NO KEY UPDATE SKIP LOCKED);
    v_now timestamptz := weaver.clock();
    v_shared record;
    v_applied bigint[];
BEGIN
    -- Members of shared rows by row. One that changes its continuation gets a row of its own first.
    FOR v_shared IN
        SELECT l.lease_id, array_agg(i.id) FILTER (WHERE i.within_us IS NULL AND NOT i.continue) AS plain,
            array_agg(i.id) FILTER (WHERE i.within_us IS NOT NULL OR i.continue) AS special
        FROM weaver.leases l
        JOIN unnest(p_ids, p_versions, p_tokens, p_epochs, p_within_us, p_continue)
            AS i (id, version, token, epoch, within_us, continue)
            ON i.token = l.token AND i.version = l.version AND i.epoch = coalesce(l.epoch, 0) AND i.id = ANY (l.ids)
        WHERE l.lease_id = ANY (v_locked) AND l.is_shared AND l.namespace = p_namespace AND l.state = {number(running)}
        GROUP BY l.lease_id ORDER BY l.lease_id
    LOOP
        IF v_shared.special IS NOT NULL THEN
            PERFORM FROM weaver.leases l WHERE l.lease_id = v_shared.lease_id FOR UPDATE SKIP LOCKED;
            IF FOUND THEN
                v_locked := v_locked || weaver.split(v_shared.lease_id, v_shared.special);
            END IF;
        END IF;
        IF v_shared.plain IS NOT NULL THEN
            v_applied := v_applied || weaver.renew_members(v_shared.lease_id, v_shared.plain, v_now);
        END IF;
    END LOOP;
    v_applied := v_applied || weaver.renew_singles(p_namespace, v_locked, p_ids, p_versions, p_tokens, p_epochs, p_within_us,
        p_continue, v_now);
    INSERT INTO weaver.progress AS p (id, fraction, message)
    SELECT i.id, i.fraction, coalesce(i.message, '') FROM unnest(p_ids, p_fractions, p_messages) AS i (id, fraction, message)
    WHERE i.fraction IS NOT NULL AND i.id = ANY (v_applied)
    ON CONFLICT (id) DO UPDATE SET fraction = excluded.fraction, message = excluded.message;
    RETURN v_applied;
END
$$;
