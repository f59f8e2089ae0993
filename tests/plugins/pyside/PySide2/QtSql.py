"""Databases and queries of QtSql over Python's own sqlite3."""
import sqlite3


class QSqlDatabase:
    @staticmethod
    def addDatabase(driver):
        assert driver == "QSQLITE", driver
        return QSqlDatabase()

    def setDatabaseName(self, name):
        self.name = name

    def open(self):
        self.connection = sqlite3.connect(self.name, isolation_level=None)
        return True


class Error:
    def __init__(self, text):
        self.message = text

    def text(self):
        return self.message


class QSqlQuery:
    def __init__(self, database):
        self.database = database
        self.statement = None
        self.values = []
        self.error = ""

    def prepare(self, statement):
        self.statement = statement

    def addBindValue(self, value):
        self.values.append(value)

    def exec_(self, statement=None):
        values, self.values = self.values, []
        try:
            self.rows = self.database.connection.execute(statement or self.statement, values)
        except sqlite3.Error as error:
            self.error = str(error)
            return False
        return True

    def next(self):
        self.row = self.rows.fetchone()
        return self.row is not None

    def value(self, column):
        return self.row[column]

    def lastError(self):
        return Error(self.error)
