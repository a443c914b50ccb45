-- What the account needs at the source; it changes nothing there. Choose a password, and the hosts it may come from.
CREATE USER 'syncd'@'%' IDENTIFIED BY 'replace-me';

-- The rows, their types and their indexes. Name single tables instead of `shop`.* to show no more than those.
GRANT SELECT ON `shop`.* TO 'syncd'@'%';

-- Which transactions are open, and since when: without it no row is proven complete, and `settle` is waited.
GRANT PROCESS ON *.* TO 'syncd'@'%';

-- MySQL alone, not MariaDB: who holds which table, so that a transaction elsewhere holds up nobody here.
-- There either of the two rights proves what is complete.
GRANT SELECT ON performance_schema.* TO 'syncd'@'%';
