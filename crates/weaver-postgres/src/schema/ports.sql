-- Queue settings, documents, streams and workers. Conditional writes are serialized per key by advisory locks.

CREATE FUNCTION weaver.put_queue(p_namespace text, p_queue text, p_paused boolean, p_max_running bigint,
    p_dispatch smallint, p_expect text, p_version bigint, OUT done boolean, OUT current bigint) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('weaver.queue ' || p_namespace || E'\x01' || p_queue, 11));
    SELECT q.version INTO current FROM weaver.queues q WHERE q.namespace = p_namespace AND q.queue = p_queue;
    done := p_expect = 'anything' OR (p_expect = 'absent' AND current IS NULL)
        OR (p_expect = 'version' AND current IS NOT DISTINCT FROM p_version);
    IF done THEN
        current := coalesce(current, 0) + 1;
        INSERT INTO weaver.queues VALUES (p_namespace, p_queue, p_paused, p_max_running, current, p_dispatch)
        ON CONFLICT (namespace, queue) DO UPDATE
        SET paused = p_paused, max_running = p_max_running, version = current, dispatch = p_dispatch;
    END IF;
END
$$;

-- Conditional write of a document; without a body it is deleted. `current` is the version afterwards, or the conflicting one.
CREATE FUNCTION weaver.put_document(p_table text, p_namespace text, p_kind text, p_id text, p_body bytea,
    p_due_at timestamptz, p_expect text, p_version bigint, OUT done boolean, OUT current bigint) LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('weaver.document ' || concat_ws(E'\x01', p_namespace, p_kind, p_id), 11));
    EXECUTE format('SELECT d.version FROM weaver.%I d WHERE d.namespace = $1 AND d.kind = $2 AND d.id = $3 FOR UPDATE',
        p_table) INTO current USING p_namespace, p_kind, p_id;
    done := p_expect = 'anything' OR (p_expect = 'absent' AND current IS NULL)
        OR (p_expect = 'version' AND current IS NOT DISTINCT FROM p_version);
    IF NOT done THEN
        RETURN;
    END IF;
    IF p_body IS NULL THEN
        EXECUTE format('DELETE FROM weaver.%I d WHERE d.namespace = $1 AND d.kind = $2 AND d.id = $3', p_table)
            USING p_namespace, p_kind, p_id;
        RETURN;
    END IF;
    v_now := weaver.clock();
    current := nextval('weaver.document_versions');
    EXECUTE format('INSERT INTO weaver.%I (namespace, kind, id, version, due_at, created_at, updated_at, body)
        VALUES ($1, $2, $3, $4, $5, $6, $6, $7) ON CONFLICT (namespace, kind, id) DO UPDATE
        SET version = $4, due_at = $5, updated_at = $6, body = $7', p_table)
        USING p_namespace, p_kind, p_id, current, p_due_at, v_now, p_body;
END
$$;

-- Appends entries to a stream. The stream's row stays locked until the commit, so that sequence numbers have no gaps.
CREATE FUNCTION weaver.append(p_table text, p_namespace text, p_name text, p_run_id bigint, p_bodies bytea[])
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_last bigint;
BEGIN
    IF p_table = 'audit' THEN
        PERFORM weaver.number_audit(p_namespace);
    END IF;
    INSERT INTO weaver.streams AS s (namespace, name, last_seq, run_id)
    VALUES (p_namespace, p_name, cardinality(p_bodies), p_run_id)
    ON CONFLICT (namespace, name) DO UPDATE SET last_seq = s.last_seq + cardinality(p_bodies)
    RETURNING s.last_seq INTO v_last;
    EXECUTE format('INSERT INTO weaver.%I (namespace, name, seq, at, body)
        SELECT $1, $2, $3 + i.place, $4, i.body FROM unnest($5) WITH ORDINALITY AS i (body, place)', p_table)
        USING p_namespace, p_name, v_last - cardinality(p_bodies), weaver.clock(), p_bodies;
    RETURN v_last;
END
$$;

CREATE FUNCTION weaver.heartbeat(p_namespace text, p_runner_id text, p_project_root text, p_started_at timestamptz,
    p_queues text[], p_types text[], p_capacity bigint, p_running bigint, p_draining boolean,
    p_every_ms bigint) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := weaver.clock();
    v_directive text;
BEGIN
    INSERT INTO weaver.runners AS r VALUES (p_namespace, p_runner_id, p_project_root, p_started_at, p_queues, p_types,
        p_capacity, p_running, p_draining, 'running', 'run', v_now, v_now, p_every_ms)
    ON CONFLICT (namespace, runner_id) DO UPDATE
    SET project_root = p_project_root, started_at = p_started_at, queues = p_queues, types = p_types,
        capacity = p_capacity, running = p_running, draining = p_draining, status = 'running', last_heartbeat = v_now,
        seen_at = v_now, every_ms = p_every_ms
    RETURNING r.directive INTO v_directive;
    RETURN v_directive;
END
$$;

CREATE FUNCTION weaver.set_directive(p_namespace text, p_runner_id text, p_directive text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO weaver.runners (namespace, runner_id, status, directive, seen_at)
    VALUES (p_namespace, p_runner_id, 'running', p_directive, weaver.clock())
    ON CONFLICT (namespace, runner_id) DO UPDATE SET directive = p_directive, seen_at = weaver.clock()
$$;

-- The namespaces that are not empty.
CREATE FUNCTION weaver.namespaces() RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT c.namespace FROM weaver.counts(NULL, NULL) c WHERE c.count <> 0
    UNION SELECT namespace FROM weaver.queues
    UNION SELECT namespace FROM weaver.runners WHERE last_heartbeat IS NOT NULL
    UNION SELECT namespace FROM weaver.documents
    UNION SELECT namespace FROM weaver.job_definitions
    UNION SELECT namespace FROM weaver.settings
    UNION SELECT namespace FROM weaver.events
$$;

-- Task groups with the counts of their tasks.
CREATE FUNCTION weaver.groups(p_namespace text, p_after text, p_limit integer)
RETURNS TABLE (id text, states smallint[], counts bigint[], last_at timestamptz) LANGUAGE sql STABLE AS $$
    WITH RECURSIVE names AS (
        (SELECT min(s.task_group_id) AS name, 1 AS place FROM weaver.tasks s
         WHERE s.namespace = p_namespace AND s.task_group_id > p_after)
        UNION ALL
        SELECT (SELECT min(s.task_group_id) FROM weaver.tasks s
            WHERE s.namespace = p_namespace AND s.task_group_id > n.name), n.place + 1
        FROM names n WHERE n.name IS NOT NULL AND n.place < p_limit
    )
    SELECT n.name, array_agg(g.state ORDER BY g.state), array_agg(g.count ORDER BY g.state), max(g.last_at)
    FROM names n CROSS JOIN LATERAL (
        SELECT weaver.task_state(r.state, r.scheduled) AS state, count(*) AS count, max(r.updated_at) AS last_at
        FROM weaver.all_job_runs r WHERE r.namespace = p_namespace AND r.task_group_id = n.name GROUP BY 1
    ) g
    WHERE n.name IS NOT NULL
    GROUP BY n.name ORDER BY n.name
$$;

-- The position of a waiting task: how many tasks of its queue would be leased before it, counted up to `p_cap`; NULL if it does not
-- wait.
CREATE FUNCTION weaver.ahead_of(p_namespace text, p_id bigint, p_cap integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := weaver.clock();
    v_task weaver.ready;
    v_in_queue bigint;
    v_of_key bigint := 0;
BEGIN
    SELECT * INTO v_task FROM weaver.ready r WHERE r.id = p_id AND r.namespace = p_namespace;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT count(*) INTO v_in_queue FROM (
        SELECT FROM generate_series(0, v_task.priority) AS p (number)
        CROSS JOIN {dispatches}
        CROSS JOIN LATERAL (
            SELECT FROM weaver.ready r
            WHERE r.namespace = p_namespace AND r.queue = v_task.queue AND r.dispatch = d.own AND r.priority = p.number::smallint
                AND (p.number < v_task.priority OR (r.ready_at, r.id) < (v_task.ready_at, v_task.id))
                AND {leasable(v_now)}
            LIMIT p_cap
        ) e LIMIT p_cap
    ) a;
    IF v_task.serial_key IS NOT NULL THEN
        SELECT (SELECT count(*) FROM weaver.leases k
                WHERE k.namespace = p_namespace AND k.serial_key = v_task.serial_key AND k.first_id <> p_id)
            + (SELECT count(*) FROM (SELECT FROM weaver.ready k
                WHERE k.namespace = p_namespace AND k.serial_key = v_task.serial_key AND k.id <> p_id
                    AND {goes_first(k.id, {has_begun({is_unstarted(k.executions)}, true)},
                        {is_startable(k.ready_at, {is_unstarted(k.executions)}, v_now, k.expires_at)}, p_id, false)}
                LIMIT p_cap) k)
        INTO v_of_key;
    END IF;
    RETURN least(greatest(v_in_queue, v_of_key), p_cap);
END
$$;

-- The ids of tasks whose lease, cancellation hold or `expires_at` is over. Skips formats beyond `p_format` and tasks that the caller
-- found unreadable.
CREATE FUNCTION weaver.overdue(p_limit bigint, p_format smallint, p_skip bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := weaver.clock();
BEGIN
    RETURN QUERY
    SELECT m.id FROM weaver.leases l CROSS JOIN LATERAL unnest(l.ids) AS m (id)
    WHERE l.expires_at <= v_now AND l.format BETWEEN 1 AND p_format AND m.id <> ALL (p_skip)
        AND (NOT l.is_shared OR m.id <> ALL (l.gone) AND NOT EXISTS (SELECT FROM weaver.ended e WHERE e.id = m.id))
    UNION ALL
    SELECT r.id FROM weaver.ready r
    WHERE {is_expired({is_unstarted(r.executions)}, v_now, r.expires_at)} AND r.format BETWEEN 1 AND p_format AND r.id <> ALL (p_skip)
    UNION ALL
    SELECT l.first_id FROM weaver.leases l
    WHERE l.state IN ({number(assigned)}, {number(orphaned)})
        AND {is_expired({is_unstarted(l.executions)}, v_now, l.task_expires_at)} AND l.format BETWEEN 1 AND p_format
        AND l.first_id <> ALL (p_skip)
    LIMIT p_limit;
END
$$;
