-- Enqueue. Ids are drawn after every advisory lock is held: of two transactions with the same serial key, the one that commits
-- later has the higher ids.

-- Tasks that differ only in their payload: the common case of a bulk insert. `is_open`: their queue has no settings, so a worker
-- can lease them without a probe. With `p_notifier`, the id of the calling node, the transaction sends NOTIFY.
CREATE FUNCTION weaver.enqueue_uniform(p_namespace text, p_queue text, p_type text, p_priority smallint,
    p_max_attempts smallint, p_max_losses smallint, p_retry jsonb, p_payloads bytea[], p_notifier text,
    OUT run_ids bigint[], OUT is_open boolean) LANGUAGE plpgsql
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now timestamptz := weaver.clock();
BEGIN
    run_ids := ARRAY(SELECT nextval('weaver.job_run_ids') FROM generate_series(1, cardinality(p_payloads)));
    INSERT INTO weaver.tasks (id, created_at, max_attempts, max_losses, priority, namespace, queue, task_type, retry, payload)
    SELECT i.id, v_now, p_max_attempts, p_max_losses, p_priority, p_namespace, p_queue, p_type, p_retry, i.payload
    FROM unnest(run_ids, p_payloads) AS i (id, payload);
    INSERT INTO weaver.ready (id, ready_at, version, attempt, executions, renewals, failures, losses, max_losses, priority, format,
        state, namespace, queue, task_type)
    SELECT i.id, v_now, 1, 0, 0, 0, 0, 0, p_max_losses, p_priority, 1, {number(queued)}, p_namespace, p_queue, p_type
    FROM unnest(run_ids) AS i (id);
    INSERT INTO weaver.moves (at, ids, namespaces, versions, states, count_namespaces, count_queues, count_states,
        count_deltas)
    VALUES (v_now, run_ids, ARRAY[p_namespace], ARRAY[1], ARRAY[{number(queued)}], ARRAY[p_namespace], ARRAY[p_queue],
        ARRAY[{number(queued)}], ARRAY[cardinality(run_ids)]);
    -- Any worker of the queue and type can lease them; a fragile task needs a free slot, which the waiter knows and not the hint.
    is_open := NOT {is_fragile(0, p_max_losses)}
        AND NOT EXISTS (SELECT FROM weaver.queues q WHERE q.namespace = p_namespace AND q.queue = p_queue);
    IF p_notifier IS NOT NULL THEN
        PERFORM pg_notify('weaver.work',
            CASE WHEN is_open THEN concat_ws(E'\n', p_notifier, p_namespace, p_queue, p_type) ELSE p_notifier END);
    END IF;
END
$$;

-- Serializes enqueues with the same serial, idempotency or schedule key by advisory locks.
CREATE FUNCTION weaver.lock_keys(p_namespaces text[], p_serial_keys text[], p_extras jsonb[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_lock bigint;
BEGIN
    -- In one order, so that two batches cannot deadlock.
    FOR v_lock IN
        SELECT hashtextextended('weaver.serial ' || i.namespace || E'\x01' || i.name, 11) AS lock
        FROM unnest(p_namespaces, p_serial_keys) AS i (namespace, name) WHERE i.name IS NOT NULL
        UNION
        SELECT hashtextextended(k.kind || i.namespace || E'\x01' || k.name, 11)
        FROM unnest(p_namespaces, p_extras) AS i (namespace, extra)
        CROSS JOIN LATERAL (VALUES ('weaver.idempotency ', i.extra ->> 'idempotency_key'),
            ('weaver.schedule ', (i.extra ->> 'job_definition_id') || E'\x01' || (i.extra ->> 'scheduled_for')))
            AS k (kind, name)
        WHERE i.extra IS NOT NULL AND k.name IS NOT NULL
        ORDER BY lock
    LOOP
        PERFORM pg_advisory_xact_lock(v_lock);
    END LOOP;
END
$$;

-- The run that already has one of these unique keys; if there is none, the keys are reserved for this run and NULL is returned.
CREATE FUNCTION weaver.claim_unique(p_namespace text, p_extra jsonb, p_id bigint, p_now timestamptz, p_until timestamptz)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_key text := p_extra ->> 'idempotency_key';
    v_definition text := p_extra ->> 'job_definition_id';
    v_instant timestamptz := (p_extra ->> 'scheduled_for')::timestamptz;
    v_found bigint;
BEGIN
    IF v_key IS NOT NULL THEN
        SELECT k.run_id INTO v_found FROM weaver.idempotency_keys k
        WHERE k.namespace = p_namespace AND k.idempotency_key = v_key AND k.until > p_now;
    END IF;
    IF v_found IS NULL AND v_definition IS NOT NULL AND v_instant IS NOT NULL THEN
        SELECT k.run_id INTO v_found FROM weaver.schedule_keys k
        WHERE k.namespace = p_namespace AND k.job_definition_id = v_definition AND k.scheduled_for = v_instant
            AND k.until > p_now;
    END IF;
    IF v_found IS NOT NULL THEN
        RETURN v_found;
    END IF;
    IF v_key IS NOT NULL THEN
        INSERT INTO weaver.idempotency_keys VALUES (p_namespace, v_key, p_id, p_until)
        ON CONFLICT (namespace, idempotency_key) DO UPDATE SET run_id = p_id, until = p_until;
    END IF;
    IF v_definition IS NOT NULL AND v_instant IS NOT NULL THEN
        INSERT INTO weaver.schedule_keys VALUES (p_namespace, v_definition, v_instant, p_id, p_until)
        ON CONFLICT (namespace, job_definition_id, scheduled_for) DO UPDATE SET run_id = p_id, until = p_until;
    END IF;
    RETURN NULL;
END
$$;

-- The answers of an enqueue: each task's id; negative, that of the task which has one of its unique keys.
CREATE FUNCTION weaver.claim_keys(p_namespaces text[], p_extras jsonb[], p_ids bigint[], p_now timestamptz, p_until timestamptz)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    v_answers bigint[] := p_ids;
    v_found bigint;
    v_member record;
BEGIN
    FOR v_member IN
        SELECT i.namespace, i.extra, i.ordinality::integer AS place
        FROM unnest(p_namespaces, p_extras) WITH ORDINALITY AS i (namespace, extra, ordinality)
        WHERE i.extra ? 'idempotency_key' OR i.extra ? 'scheduled_for'
        ORDER BY place
    LOOP
        v_found := weaver.claim_unique(v_member.namespace, v_member.extra, p_ids[v_member.place], p_now, p_until);
        IF v_found IS NOT NULL THEN
            v_answers[v_member.place] := -v_found;
        END IF;
    END LOOP;
    RETURN v_answers;
END
$$;

-- Tasks of any kind. Rare fields are in `p_extras`, one JSON object for each task that has any. Returns an id per task; negative: a
-- task with the same unique key exists.
CREATE FUNCTION weaver.enqueue_many(p_namespaces text[], p_queues text[], p_types text[], p_priorities smallint[],
    p_max_attempts smallint[], p_max_losses smallint[], p_serial_keys text[], p_run_at timestamptz[], p_delays_us bigint[],
    p_payloads bytea[], p_extras jsonb[], p_unique_us bigint, p_notifier text)
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz;
    v_ids bigint[];
    v_answers bigint[];
BEGIN
    PERFORM weaver.lock_keys(p_namespaces, p_serial_keys, p_extras);
    v_now := weaver.clock();
    v_ids := ARRAY(SELECT nextval('weaver.job_run_ids') FROM generate_series(1, cardinality(p_payloads)));
    v_answers := weaver.claim_keys(p_namespaces, p_extras, v_ids, v_now, weaver.later(v_now, p_unique_us));
    WITH new AS (
        INSERT INTO weaver.tasks (id, created_at, run_at, max_attempts, max_losses, priority, namespace, queue, task_type, payload,
            content_type, retry, timeout_us, expires_at, serial_key, idempotency_key, task_group_id, session_id, labels,
            job_definition_id, scheduled_for, retry_of, trace, dispatch)
        SELECT i.id, v_now, CASE WHEN NOT {is_due(t.ready_at, v_now)} THEN t.ready_at END, i.max_attempts,
            i.max_losses, i.priority, i.namespace, i.queue, i.task_type, i.payload,
            i.extra ->> 'content_type', i.extra -> 'retry', (i.extra ->> 'timeout_us')::bigint,
            (i.extra ->> 'expires_at')::timestamptz, i.serial_key, i.extra ->> 'idempotency_key',
            i.extra ->> 'task_group_id', i.extra ->> 'session_id', i.extra -> 'labels', i.extra ->> 'job_definition_id',
            (i.extra ->> 'scheduled_for')::timestamptz, (i.extra ->> 'retry_of')::bigint, i.extra -> 'trace',
            {dispatch_number(i.extra ->> 'dispatch')}
        FROM unnest(v_answers, p_namespaces, p_queues, p_types, p_priorities, p_max_attempts, p_max_losses, p_serial_keys,
            p_run_at, p_delays_us, p_payloads, p_extras) AS i (id, namespace, queue, task_type, priority, max_attempts, max_losses,
            serial_key, run_at, delay_us, payload, extra)
        CROSS JOIN LATERAL (SELECT greatest(v_now, coalesce(i.run_at, weaver.later(v_now, i.delay_us))) AS ready_at) t
        WHERE i.id > 0
        RETURNING id, run_at, expires_at, max_losses, priority, namespace, queue, task_type, serial_key, labels,
            dispatch, run_at IS NOT NULL AS scheduled
    ), waiting AS (
        INSERT INTO weaver.ready (id, ready_at, expires_at, version, attempt, executions, renewals, failures, losses, max_losses,
            priority, dispatch, format, state, namespace, queue, task_type, serial_key)
        SELECT n.id, coalesce(n.run_at, v_now), n.expires_at, 1, 0, 0, 0, 0, 0, n.max_losses, n.priority, coalesce(n.dispatch, 0), 1,
            {waiting_number(n.scheduled)}, n.namespace, n.queue, n.task_type, n.serial_key
        FROM new n
    ), labelled AS (
        INSERT INTO weaver.task_labels
        SELECT n.namespace, weaver.label(k.key, k.value), n.id FROM new n CROSS JOIN LATERAL jsonb_each_text(n.labels) k
        WHERE n.labels IS NOT NULL
        ON CONFLICT DO NOTHING
    ), counted AS (
        SELECT namespace, queue, scheduled, count(*)::integer AS count FROM new GROUP BY 1, 2, 3
    )
    INSERT INTO weaver.moves (at, ids, namespaces, versions, states, count_namespaces, count_queues, count_states,
        count_deltas)
    SELECT v_now, n.ids, n.namespaces, ARRAY[1], n.states, c.namespaces, c.queues, c.states, c.deltas
    FROM (SELECT array_agg(id ORDER BY id) AS ids, array_agg(namespace ORDER BY id) AS namespaces,
            array_agg({waiting_number(scheduled)} ORDER BY id) AS states FROM new) n,
        (SELECT array_agg(namespace) AS namespaces, array_agg(queue) AS queues,
            array_agg({waiting_number(scheduled)}) AS states, array_agg(count) AS deltas FROM counted) c
    WHERE n.ids IS NOT NULL;
    IF p_notifier IS NOT NULL THEN
        PERFORM pg_notify('weaver.work', p_notifier);
    END IF;
    RETURN v_answers;
END
$$;

-- Enqueues one task from plain SQL, in the caller's transaction, and returns its id. `options` are the other fields of a task, by
-- the names and in the units of the JSON API (`serial_key`, `timeout_ms`, `max_attempts`, …), with the defaults of the task type.
-- Validation is the JSON API's: an invalid field raises 22023 and is named with its value and its limits.
CREATE FUNCTION weaver.enqueue(task_type text, payload jsonb DEFAULT 'null', queue text DEFAULT 'default',
    namespace text DEFAULT 'default', priority integer DEFAULT {priority_default}, run_at timestamptz DEFAULT NULL,
    delay interval DEFAULT NULL, options jsonb DEFAULT NULL) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    v_options jsonb := weaver.check_options(coalesce(nullif(options, 'null'), '{}'));
    v_extra jsonb;
    v_payload bytea;
    v_delay_us bigint;
    v_answers bigint[];
BEGIN
    PERFORM weaver.check_text('task_type', task_type), weaver.check_text('queue', queue),
        weaver.check_text('namespace', namespace), weaver.check_range('run_at', run_at);
    IF starts_with(task_type, {reserved}) THEN
        PERFORM weaver.refuse_field('task_type', task_type, 'a type without the reserved prefix');
    ELSIF starts_with(namespace, {reserved}) THEN
        PERFORM weaver.refuse_field('namespace', namespace, 'a namespace without the reserved prefix');
    ELSIF priority IS NULL OR priority NOT BETWEEN {priority_min} AND {priority_max} THEN
        PERFORM weaver.refuse_field('priority', priority::text, 'a number between {priority_min} and {priority_max}');
    ELSIF run_at IS NOT NULL AND delay IS NOT NULL THEN
        PERFORM weaver.refuse_field('delay', 'given together with run_at', 'only one of them');
    END IF;
    IF delay IS NOT NULL THEN
        -- Compared first: adding a huge interval would overflow.
        IF delay BETWEEN interval '0' AND interval '10 years' THEN
            v_delay_us := weaver.micros(timestamptz 'epoch' + delay);
        END IF;
        IF v_delay_us IS NULL OR v_delay_us > {delay_max_us} THEN
            PERFORM weaver.refuse_field('delay', delay::text,
                format('between 0 and %s seconds', {delay_max_us} / 1000000));
        END IF;
    END IF;
    -- With another content type, a string payload is its text without quotes, and null is empty.
    v_payload := convert_to(CASE WHEN NOT v_options ? 'content_type' THEN coalesce(payload::text, 'null')
        ELSE coalesce(payload #>> '{}', '') END, 'UTF8');
    IF octet_length(v_payload) > {payload_max} THEN
        PERFORM weaver.refuse_field('payload', octet_length(v_payload) || ' bytes long', 'at most {payload_max} bytes');
    END IF;
    v_extra := weaver.with_type_defaults(task_type, v_options);
    v_answers := weaver.enqueue_many(ARRAY[namespace], ARRAY[queue], ARRAY[task_type], ARRAY[priority::smallint],
        ARRAY[(v_extra ->> 'max_attempts')::smallint], ARRAY[(v_extra ->> 'max_losses')::smallint],
        ARRAY[v_extra ->> 'serial_key'], ARRAY[run_at], ARRAY[v_delay_us], ARRAY[v_payload], ARRAY[v_extra], {unique_us}, '');
    RETURN abs(v_answers[1]);
END
$$;
