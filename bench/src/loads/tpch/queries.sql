-- What was shipped, by state (as TPC-H 1).
select flag, sum(quantity), sum(price), sum(price * (1 - discount)), avg(discount), count(*)
from lineitem where shipped <= date '1998-08-01' group by flag order by flag;
-- The dearest orders of a segment that were not shipped yet (as 3).
select o.orderkey, sum(l.price * (1 - l.discount)) as revenue
from customer c join orders o using (custkey) join lineitem l using (orderkey)
where c.segment = 'BUILDING' and o.day < date '1995-03-15' and l.shipped > date '1995-03-15'
group by o.orderkey order by revenue desc limit 10;
-- Orders that came late, by priority (as 4).
select priority, count(*) from orders o
where day >= date '1993-07-01' and day < date '1993-10-01'
  and exists (select from lineitem l where l.orderkey = o.orderkey and l.committed < l.shipped)
group by priority order by priority;
-- What smaller discounts would have brought (as 6).
select sum(price * discount) from lineitem
where shipped >= date '1994-01-01' and shipped < date '1995-01-01' and discount between 0.05 and 0.07 and quantity < 24;
-- The part of promotions (as 14).
select 100 * sum(case when p.kind = 'PROMO' then l.price else 0 end) / sum(l.price)
from lineitem l join part p using (partkey) where l.shipped >= date '1995-09-01' and l.shipped < date '1995-12-01';
