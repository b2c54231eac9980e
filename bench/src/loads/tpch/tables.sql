-- Tables like those of TPC-H, of :orders orders: the columns that the queries use, and a comment that fills the rows.
select setseed(0.5);
create table customer as
    select id as custkey, (array['BUILDING', 'AUTOMOBILE', 'MACHINERY', 'HOUSEHOLD', 'FURNITURE'])[1 + id % 5] as segment,
           id % 25 as nation, random() * 9000 as balance, repeat(md5(id::text), 3) as comment
    from generate_series(1, greatest(:orders / 10, 1)) as id;
create table part as
    select id as partkey, (array['PROMO', 'SMALL', 'LARGE', 'ECONOMY'])[1 + id % 4] as kind, 'Brand#' || id % 25 as brand,
           900 + id % 1000 as price, md5(id::text) as comment
    from generate_series(1, greatest(:orders / 7, 1)) as id;
create table orders as
    select id as orderkey, 1 + (random() * (greatest(:orders / 10, 1) - 1))::int as custkey,
           date '1992-01-01' + (random() * 2400)::int as day, (array['1-URGENT', '2-HIGH', '3-LOW'])[1 + id % 3] as priority,
           repeat(md5(id::text), 2) as comment
    from generate_series(1, :orders) as id;
create table lineitem as
    select orderkey, line, 1 + (random() * (greatest(:orders / 7, 1) - 1))::int as partkey,
           1 + (random() * 49)::int as quantity, 900 + random() * 90000 as price, (random() * 10)::int / 100.0 as discount,
           (array['A', 'N', 'R'])[1 + (random() * 2)::int] as flag, day + (random() * 120)::int as shipped,
           day + 45 as committed, (array['AIR', 'MAIL', 'RAIL', 'SHIP'])[1 + (random() * 3)::int] as mode,
           md5(orderkey::text) as comment
    from orders, generate_series(1, 4) as line;
vacuum analyze;
checkpoint;
