-- Rights of the account at the source; it changes nothing there. Choose a password and the allowed hosts.
CREATE USER 'syncd'@'%' IDENTIFIED BY 'replace-me';

-- Rows, types and indexes. To show fewer tables, name them instead of `shop`.*.
GRANT SELECT ON `shop`.* TO 'syncd'@'%';

-- Open transactions and their age. Without it no row is proven complete, and syncd waits for `settle`.
GRANT PROCESS ON *.* TO 'syncd'@'%';

-- MySQL only, not MariaDB: locks by table, so that transactions on other tables delay nothing here.
-- On MySQL either of the two rights proves what is complete.
GRANT SELECT ON performance_schema.* TO 'syncd'@'%';
