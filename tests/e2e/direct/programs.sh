# Programs that people use, on the folder that is named; what is printed does not depend on how its files are reached.
cd "$1"
rm -rf work
mkdir work
cd work
dd if=/dev/zero of=zeros bs=4k count=200 status=none
dd if=zeros of=copy bs=512 status=none
cmp zeros copy
seq 1 20000 > numbers
wc -l < numbers
sort -n numbers | tail -1
grep -c 7 numbers
(echo first; echo second) >> numbers
tail -2 numbers
cp -r /usr/include/linux tree
tar cf tree.tar tree
mv tree before
tar xf tree.tar
diff -r before tree
cp -a tree again
diff -r before again
tar cf - tree | tar tf - | sort | sha256sum
sed -i 's/first/third/' numbers
tail -2 numbers
while read -r number; do echo "$number"; done < numbers > lines
cmp numbers lines
sqlite3 db 'create table t(i integer primary key, b text)' \
    'with recursive c(x) as (select 1 union all select x + 1 from c where x < 3000) insert into t select x, x from c'
for i in $(seq 1 30); do sqlite3 db "update t set b = 'row $i' where i = $i"; done
sqlite3 db 'pragma journal_mode = wal'
for i in $(seq 31 60); do sqlite3 db "update t set b = 'row $i' where i = $i"; done
sqlite3 db 'pragma integrity_check' 'select count(*), sum(length(b)) from t'
git init -q repository
cd repository
git config user.email a@example.com
git config user.name a
cp -r ../tree .
git add .
git commit -q -m all
git fsck --strict
git gc -q
git log --oneline | wc -l
cd ..
printf 'int main(void) { return 0; }\n' > program.c
gcc -o program program.c
./program
echo compiled
