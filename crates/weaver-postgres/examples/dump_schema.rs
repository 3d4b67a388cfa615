fn main() { println!("{}", weaver_postgres::migrations("weaver")[0].sql); }
