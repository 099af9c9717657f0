"""The words that versions of the schema are written in: scripts, and the wall between workspaces.

A version is a file `versions/NNNN_name.py` that knows SQL alone:
- `revision` is the name of the file, `down_revision` that of the file before it; there is one line and no way back.
- `upgrade()` calls `run` with a script as it would be typed into psql, then a function below for each of its tables.
  It sees no connection and no rows: what depends on rows is said in SQL. BEGIN, COMMIT and the search path (public)
  are there already. A lock that is not had in 5 s ends the version, so a long rewrite goes in a version of its own.
- Every table with a `workspace_id` goes through `wall_in`; the others through `grant`. Nothing is granted by default.
- A function that must look over the wall is SECURITY DEFINER with `SET search_path = public, pg_temp`, answers as
  little as possible, goes through `owned_by_lookup`, and its tables through `open_to_lookup`.
- A version that has been released is never changed.
"""

from typing import Final

from alembic import op

ALL: Final = "SELECT, INSERT, UPDATE, DELETE"


def run(script: str) -> None:
    """Run a script of many statements as it stands: no parameters, nothing is escaped."""
    op.get_context().impl.static_output(script.strip().rstrip(";") + ";")


def grant(rights: str, *tables: str) -> None:
    """What the program may do with a table."""
    run(f"GRANT {rights} ON {', '.join(tables)} TO soonish_app")


def wall_in(*tables: str, rights: str = ALL, column: str = "workspace_id") -> None:
    """Show only the rows of the transaction's workspace, to the owner of the tables too; without a workspace, none."""
    for table in tables:
        # As a subquery it is evaluated once a statement, and an index on the column stays of use.
        run(f"""
            ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
            CREATE POLICY workspace ON {table} USING ({column} = (SELECT current_workspace()))""")
    grant(rights, *tables)


def open_to_loops(*tables: str) -> None:
    """Show all rows where the workspace is '*': the due loops, which serve every workspace, and housekeeping."""
    for table in tables:
        run(f"CREATE POLICY loops ON {table} USING ((SELECT every_workspace()))")


def open_to_lookup(*tables: str) -> None:
    """Let the functions of `owned_by_lookup` read all rows."""
    for table in tables:
        run(f"CREATE POLICY lookup ON {table} FOR SELECT TO soonish_lookup USING (true)")
        run(f"GRANT SELECT ON {table} TO soonish_lookup")


def owned_by_lookup(*functions: str) -> None:
    """Let functions (named with their argument types) look over the wall, for the program to call."""
    names = ", ".join(functions)
    run("GRANT CREATE ON SCHEMA public TO soonish_lookup")  # an owner needs it at the moment of the change
    for function in functions:
        run(f"ALTER FUNCTION {function} OWNER TO soonish_lookup")
    run("REVOKE CREATE ON SCHEMA public FROM soonish_lookup")
    run(f"REVOKE EXECUTE ON FUNCTION {names} FROM PUBLIC")
    run(f"GRANT EXECUTE ON FUNCTION {names} TO soonish_app")
