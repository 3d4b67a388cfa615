-- Validation of the arguments of `weaver.enqueue` by kind of field. Names, limits and the functions per field are generated from
-- `weaver_core::task::fields` (`validation.rs`).

CREATE FUNCTION weaver.refuse_field(p_field text, p_value text, p_wanted text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is %: expected %', p_field, coalesce(left(p_value, 100), 'missing'), p_wanted
        USING ERRCODE = '22023', HINT = 'fields and limits are those of the JSON API; see docs/operating/postgres.md';
END
$$;

CREATE FUNCTION weaver.check_text(p_field text, p_value text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF p_value IS NULL OR octet_length(p_value) NOT BETWEEN {name_min} AND {name_max}
            OR p_value ~ '[\u0001-\u001f\u007f-\u009f]' THEN
        PERFORM weaver.refuse_field(p_field, CASE WHEN octet_length(p_value) > {name_max}
            THEN octet_length(p_value) || ' bytes long' ELSE to_jsonb(p_value)::text END,
            '{name_min} to {name_max} bytes of text without control characters');
    END IF;
    RETURN p_value;
END
$$;

CREATE FUNCTION weaver.check_name(p_field text, p_value jsonb) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF jsonb_typeof(p_value) IS DISTINCT FROM 'string' THEN
        PERFORM weaver.refuse_field(p_field, p_value::text, 'a text of {name_min} to {name_max} bytes');
    END IF;
    RETURN weaver.check_text(p_field, p_value #>> '{}');
END
$$;

-- Integers as in JSON: 30.0 is one.
CREATE FUNCTION weaver.check_integer(p_field text, p_value jsonb, p_min bigint, p_max bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_number numeric;
BEGIN
    IF jsonb_typeof(p_value) = 'number' THEN
        v_number := (p_value #>> '{}')::numeric;
    END IF;
    IF v_number IS NULL OR v_number <> trunc(v_number) OR v_number NOT BETWEEN p_min AND p_max THEN
        PERFORM weaver.refuse_field(p_field, p_value::text, format('a whole number between %s and %s', p_min, p_max));
    END IF;
    RETURN v_number;
END
$$;

CREATE FUNCTION weaver.check_boolean(p_field text, p_value jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF jsonb_typeof(p_value) IS DISTINCT FROM 'boolean' THEN
        PERFORM weaver.refuse_field(p_field, p_value::text, 'true or false');
    END IF;
    RETURN p_value::boolean;
END
$$;

CREATE FUNCTION weaver.check_range(p_field text, p_at timestamptz) RETURNS timestamptz LANGUAGE plpgsql AS $$
BEGIN
    IF p_at NOT BETWEEN timestamptz '{instant_min}' AND timestamptz '{instant_max}' THEN
        PERFORM weaver.refuse_field(p_field, p_at::text, 'an instant between {instant_min} and {instant_max}');
    END IF;
    RETURN p_at;
END
$$;

-- RFC 3339 with an offset, truncated to microseconds as in the JSON API; PostgreSQL itself accepts more formats, and rounds.
CREATE FUNCTION weaver.check_instant(p_field text, p_value jsonb) RETURNS timestamptz LANGUAGE plpgsql AS $$
DECLARE
    v_text text := upper(p_value #>> '{}');
    v_at timestamptz;
BEGIN
    IF jsonb_typeof(p_value) = 'string' AND v_text ~ ('^\d{4}-\d{2}-\d{2}[T ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d'
            || '(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$') THEN
        BEGIN
            v_at := regexp_replace(v_text, '(\.\d{6})\d+', '\1')::timestamptz;
        EXCEPTION WHEN datetime_field_overflow OR invalid_datetime_format OR invalid_time_zone_displacement_value THEN
            v_at := NULL;
        END;
    END IF;
    IF v_at IS NULL THEN
        PERFORM weaver.refuse_field(p_field, p_value::text, 'RFC 3339 with a zone, like 2026-01-31T09:30:00Z');
    END IF;
    RETURN weaver.check_range(p_field, v_at);
END
$$;

CREATE FUNCTION weaver.check_choice(p_field text, p_value jsonb, p_words text[]) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF jsonb_typeof(p_value) IS DISTINCT FROM 'string' OR p_value #>> '{}' <> ALL (p_words) THEN
        PERFORM weaver.refuse_field(p_field, p_value::text, 'one of ' || array_to_string(p_words, ', '));
    END IF;
    RETURN p_value #>> '{}';
END
$$;

CREATE FUNCTION weaver.check_header(p_field text, p_value jsonb, p_max_bytes integer) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_text text := p_value #>> '{}';
BEGIN
    IF jsonb_typeof(p_value) IS DISTINCT FROM 'string' OR octet_length(v_text) > p_max_bytes OR v_text !~ '^[ -~]*$' THEN
        PERFORM weaver.refuse_field(p_field, p_value::text,
            format('at most %s bytes of printable ASCII', p_max_bytes));
    END IF;
    RETURN v_text;
END
$$;

-- Requires an object with these members and no others.
CREATE FUNCTION weaver.check_members(p_field text, p_value jsonb, p_required text[], p_optional text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_name text;
BEGIN
    IF jsonb_typeof(p_value) IS DISTINCT FROM 'object' THEN
        PERFORM weaver.refuse_field(p_field, p_value::text, 'an object');
    END IF;
    FOR v_name IN SELECT k FROM jsonb_object_keys(p_value) k WHERE k <> ALL (p_required || p_optional) LOOP
        PERFORM weaver.refuse_field(p_field, 'with a member ' || to_jsonb(v_name)::text,
            CASE WHEN cardinality(p_required || p_optional) = 0 THEN 'none'
                ELSE 'only ' || array_to_string(p_required || p_optional, ', ') END
            || CASE WHEN p_field = 'options' AND v_name = ANY ({arguments})
                THEN '; ' || v_name || ' is an argument of weaver.enqueue itself' ELSE '' END);
    END LOOP;
    FOREACH v_name IN ARRAY p_required LOOP
        IF NOT p_value ? v_name THEN
            PERFORM weaver.refuse_field(p_field || '.' || v_name, NULL, 'a value');
        END IF;
    END LOOP;
END
$$;

CREATE FUNCTION weaver.check_labels(p_field text, p_value jsonb, p_max integer) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    v_label record;
    v_count bigint;
BEGIN
    IF jsonb_typeof(p_value) IS DISTINCT FROM 'object' THEN
        PERFORM weaver.refuse_field(p_field, p_value::text, 'an object of texts');
    END IF;
    v_count := (SELECT count(*) FROM jsonb_object_keys(p_value));
    IF v_count > p_max THEN
        PERFORM weaver.refuse_field(p_field, v_count || ' labels', format('at most %s', p_max));
    END IF;
    FOR v_label IN SELECT * FROM jsonb_each(p_value) LOOP
        PERFORM weaver.check_text('the name of a label', v_label.key);
        PERFORM weaver.check_name(p_field || '.' || v_label.key, v_label.value);
    END LOOP;
    RETURN nullif(p_value, '{}');
END
$$;
{fields}
